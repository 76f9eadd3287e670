//! Checks that a busy machine may keep from deciding. They are counted by `cargo xtask test`, which allows few of them to
//! stay undecided where its own probe finds the machine quiet.

/// Checks what a run on a busy machine may spoil: `decide!(rate > 3e6, path::validity(&document), "{rate} B/s")`.
///
/// A check that holds is decided. One that does not hold fails if the run was valid, and is undecided if it was not.
#[macro_export]
macro_rules! decide {
    ($holds:expr, $validity:expr, $($message:tt)+) => {{
        fn here() {}
        $crate::decide::check(std::any::type_name_of_val(&here), $holds, &$validity, || format!($($message)+));
    }};
}

/// The value of a `Result` whose error is the reason why a busy machine left nothing to decide on; the test ends there.
#[macro_export]
macro_rules! or_undecided {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(reason) => {
                $crate::decide!(false, Err(reason), "nothing was measured");
                return;
            }
        }
    };
}

/// Implements [`decide!`](crate::decide!). `place` is the path of something inside the test.
#[track_caller]
pub fn check(place: &str, holds: bool, validity: &Result<(), String>, message: impl FnOnce() -> String) {
    match line(crate::skip::test_name(place), holds, validity, message) {
        Ok(line) => println!("{line}"),
        Err(message) => panic!("{message}"),
    }
}

/// The line that is counted; the message if the check fails.
fn line(
    test: &str,
    holds: bool,
    validity: &Result<(), String>,
    message: impl FnOnce() -> String,
) -> Result<String, String> {
    match validity {
        _ if holds => Ok(format!("decided: {test}")),
        Ok(()) => Err(message()),
        Err(reason) => {
            // A whole document may stand in the message: the first words tell the checks of a test apart.
            let message: String = message().chars().take(200).collect();
            Ok(format!("undecided: {test}: {reason} ({message})").replace('\n', " "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_valid_run_decides_and_an_invalid_one_only_what_holds() {
        let line = |holds, validity: Result<(), &str>| {
            line("t", holds, &validity.map_err(str::to_owned), || "3 of\n4".to_owned())
        };
        assert_eq!(line(true, Ok(())), Ok("decided: t".to_owned()));
        assert_eq!(line(true, Err("late")), Ok("decided: t".to_owned()));
        assert_eq!(line(false, Err("late")), Ok("undecided: t: late (3 of 4)".to_owned()));
        assert_eq!(line(false, Ok(())), Err("3 of\n4".to_owned()));
    }
}
