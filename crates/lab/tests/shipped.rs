//! Plans that ship, and those in the documentation: they are valid, and the documented run times hold.

use lab::{Plan, SHIPPED, Source, Validity, Variant};

#[test]
fn shipped_plans_are_right_and_named_by_their_key() {
    for shipped in SHIPPED {
        for variant in [Variant::Full, Variant::Quick] {
            let plan = Source::find(shipped.name).unwrap().plan(variant).unwrap();
            assert_eq!(plan.name, shipped.name);
            let expects = !plan.expects.is_empty() || !plan.cases.is_empty();
            assert!(expects, "{} expects something", plan.name);
        }
    }
    let error = Source::find("tuor").unwrap_err().to_string();
    assert_eq!(error, "no plan ships as 'tuor' and there is no such file; did you mean 'tour'?");
    let error = Source::find("./nowhere.toml").unwrap_err().to_string();
    assert_eq!(error, "plan ./nowhere.toml: No such file or directory (os error 2)");
    for (path, said) in [("/dev/zero", "longer than 1024 KiB, which no plan is"), ("/tmp/", "Is a directory")]
    {
        let error = Source::find(path).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_smoke_run_has_every_load_once_and_takes_seconds() {
    for shipped in SHIPPED {
        let plan = Source::find(shipped.name).unwrap().plan(Variant::Smoke).unwrap();
        let cells = plan.cells();
        assert_eq!(cells.len(), plan.loads.len(), "{}", plan.name);
        assert_eq!(plan.repeats, 1, "{}", plan.name);
        for cell in &cells {
            assert_eq!(cell.load.validity, Validity::Off, "{}", cell.words());
            let rtt_s = cell.path.rtt().as_secs_f64();
            let expected_s = lab::expected_time(cell).as_secs_f64();
            assert!(expected_s < 3.0 + 24.0 * rtt_s, "{}: {expected_s} s", cell.words());
        }
    }
}

#[test]
fn the_tour_is_what_the_readme_promises() {
    let time = |variant| {
        let plan = Source::find("tour").unwrap().plan(variant).unwrap();
        let seconds = plan.cells().iter().map(|cell| lab::expected_time(cell).as_secs_f64()).sum::<f64>();
        (plan.cells().len(), seconds * f64::from(plan.repeats))
    };
    let (cells, full_s) = time(Variant::Full);
    let (_, quick_s) = time(Variant::Quick);
    assert_eq!(cells, 45);
    assert!(full_s < 225.0, "the tour takes {full_s} s");
    assert!(quick_s < 75.0, "the quick tour takes {quick_s} s");
}

#[test]
fn plans_that_say_how_long_they_take_are_right() {
    let mut said = 0;
    for shipped in SHIPPED {
        let plan = Source::find(shipped.name).unwrap().plan(Variant::Full).unwrap();
        let words: Vec<&str> = plan.description.split_whitespace().collect();
        let Some(at) = words.windows(2).position(|two| two == ["It", "takes"]) else { continue };
        let minutes: f64 = words[at + 2].parse().unwrap();
        let cells = plan.cells();
        let all_s: f64 = cells.iter().map(|cell| lab::expected_time(cell).as_secs_f64()).sum();
        let found = all_s * f64::from(plan.repeats) / 60.0;
        assert!((found - minutes).abs() < 1.0, "{} takes {found:.1} minutes", plan.name);
        said += 1;
    }
    assert_eq!(said, 6);
}

/// The page that has the metrics, and those with whole plans.
const METRICS: &str = include_str!("../../../docs/reference/plans-checks.md");
const EXAMPLES: [&str; 2] = [
    include_str!("../../../docs/guides/write-a-plan.md"),
    include_str!("../../../docs/reference/plans-examples.md"),
];

#[test]
fn the_documentation_names_every_metric() {
    for metric in analysis::METRICS {
        assert!(
            METRICS.contains(&format!("`{}`", metric.name)),
            "{} is not in the page of metrics",
            metric.name
        );
    }
}

#[test]
fn the_examples_of_the_documentation_are_right() {
    let blocks = EXAMPLES.iter().flat_map(|page| page.split("```toml\n").skip(1));
    let examples: Vec<&str> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    let whole: Vec<_> = examples.iter().filter(|example| example.starts_with("name = ")).collect();
    assert_eq!(whole.len(), 5, "five worked examples");
    for example in whole {
        for variant in [Variant::Full, Variant::Quick] {
            if let Err(problems) = Plan::parse(example, variant) {
                panic!("{problems:#?} in\n{example}");
            }
        }
    }
}
