//! Counts of commands whose headers are not all in the capture.

use super::*;

#[test]
fn completed_commands_are_those_with_a_visible_or_numbered_status() {
    let whole = HiddenCounts {
        commands: HiddenBounds { least: 5, most: 5 },
        statuses: Some(HiddenBounds { least: 15, most: 15 }),
        statuses_visible: false,
        begun: true,
    };
    let counts = CommandCounts { completed: 80, unmatched: 5, ..CommandCounts::default() };
    let inferred = CommandCounts { completed: 90, status_inferred: 10, ..counts };
    let sent = Count::Exact(100);
    let between = |least, most| Count::Between { least, most };
    for (counts, sent, hidden, completed) in [
        (counts, sent, HiddenCounts { statuses_visible: true, ..whole }, Count::Exact(80)),
        // A status without its command is that of a hidden one.
        (counts, sent, whole, Count::Exact(100)),
        (
            counts,
            sent,
            HiddenCounts { commands: HiddenBounds { least: 0, most: 0 }, ..whole },
            Count::Exact(95),
        ),
        // Or of one that was sent before the capture begins.
        (counts, sent, HiddenCounts { begun: false, ..whole }, between(80, 100)),
        // Or of one that was completed by inference.
        (inferred, sent, whole, between(95, 100)),
        (inferred, sent, HiddenCounts { statuses_visible: true, ..whole }, between(95, 100)),
        (inferred, sent, HiddenCounts { statuses: None, ..whole }, between(89, 100)),
        // No more than were sent.
        (counts, between(80, 90), whole, Count::Exact(90)),
        (counts, Count::Exact(70), HiddenCounts { statuses_visible: true, ..whole }, Count::Exact(70)),
        (counts, Count::Unknown, whole, Count::Unknown),
    ] {
        assert_eq!(super::completed(&counts, sent, &hidden), completed, "{counts:?} {sent:?} {hidden:?}");
    }
}
