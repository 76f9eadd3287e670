//! Expectations: problems of a text, and those that a smaller variant leaves out.

use lab::{Plan, Variant};

use super::{RIGHT, check};

#[test]
fn expectations_name_what_is_there() {
    check(
        "read.throughput",
        "raed.throughput",
        &["29: value: no load is named 'raed'; did you mean 'read'?"],
    );
    check(
        "read.throughput",
        "read.thruput",
        &["29: value: 'read' has no metric 'thruput'; did you mean 'throughput'?"],
    );
    check(
        "read.throughput /",
        "read.throughput //",
        &["29: value: found '/' at character 18 of 'read.throughput // line.goodput', \
         expected a number, a metric such as read.throughput, or '('"],
    );
    check(
        "bound = 0.9",
        "bound = 0.9\nwhere = { dely = \"8ms\" }",
        &["32: the matrix has no 'dely'; did you mean 'delay'?"],
    );
    check(
        "bound = 0.9",
        "bound = 0.9\nwhere = { delay = \"9ms\" }",
        &["32: 'delay' is never '9ms' in the matrix; did you mean '8ms'?"],
    );
    check(
        "line.goodput",
        "line.throughput",
        &["29: value: 'line' has no metric 'throughput'; known here: goodput, rate, rtt, bdp"],
    );
    check(
        "bound = 0.9",
        "bound = 0.9\nwhere = { delay = [] }",
        &["32: 'delay' has no value here, so that nothing would be checked; leave it out or name one"],
    );
    check(
        "bound = 0.9",
        "bound = 0.9\nwhere = { read = {} }",
        &[
            "32: 'read' has no value here, so that nothing would be checked; leave it out or name one",
            "32: 'read' must be a single value: a text in quotes, a number, true or false; found a table",
        ],
    );
    check(" / line.goodput\"", "\"\nshape = \"flat\"\nalong = \"delay\"", &[]);
    check(
        " / line.goodput\"",
        "\"\nshape = \"flat\"\nalong = \"delay\"\nwhere = { delay = \"8ms\" }",
        &["27: a shape needs two values or more along its axis, and the value must vary there"],
    );
    check(
        " / line.goodput\"",
        "\"\nshape = \"flatt\"\nalong = \"dealy\"",
        &[
            "30: shape: unknown value 'flatt'; did you mean 'flat'?",
            "31: along: unknown value 'dealy'; did you mean 'delay'?",
        ],
    );
    check(
        " / line.goodput\"",
        " / line.goodput\"\nshape = \"flat\"",
        &["27: [[expect]] needs along, such as along = \"depth\""],
    );
    check("line.goodput", "read.throughput[delay=8ms]", &[]);
    check(
        "bound = 0.9",
        "bound = 0.9\ninterval = \"lower95\"",
        &["27: an interval needs 15 repeats or more, and the plan has 1"],
    );
    check(
        "\"read.throughput / line.goodput\"\nop = \">=\"",
        "\"read.throughput\"\nunit = \"Mbit/s\"\ninterval = \"lower95\"\nop = \"<=\"",
        &[
            "27: an interval needs 15 repeats or more, and the plan has 1",
            "31: an interval is one of ratios; divide by what the value is compared with",
            "31: a ratio has a lower bound here: expected >= or >",
        ],
    );
    check(
        "bound = 0.9",
        "bound = 0.9\ninterval = \"uper95\"",
        &["32: interval: unknown value 'uper95'; did you mean 'lower95'?"],
    );
    check(
        "line.goodput",
        "read.throughput[delay=9ms]",
        &["29: value: 'delay' is never '9ms' in the matrix; did you mean '8ms'?"],
    );
    check(
        "line.goodput",
        "read.throughput[dealy=8ms]",
        &["29: value: the matrix has no 'dealy'; did you mean 'delay'?"],
    );
    check("name = \"read\"", "name = \"line\"", &["21: the name 'line' is taken; every load needs its own"]);
}

#[test]
fn an_interval_goes_where_quick_has_too_few_repeats() {
    let asked = RIGHT.replacen("bound = 0.9", "bound = 0.9\ninterval = \"lower95\"", 1);
    let parse = |quick: u32, variant| {
        let text = format!("repeats = 15\n{asked}\n[quick]\nrepeats = {quick}\n");
        let plan = Plan::parse(&text, variant).unwrap();
        let written = plan.to_json()["expect"]
            .as_array()
            .map_or(0, |all| all.iter().filter(|expect| expect["interval"] == "lower95").count());
        (plan.repeats, plan.expects.len(), written)
    };
    assert_eq!(parse(14, Variant::Full), (15, 1, 1));
    assert_eq!(parse(15, Variant::Quick), (15, 1, 1));
    assert_eq!(parse(14, Variant::Quick), (14, 0, 0), "its plan is right all the same");
}
