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
    let test = crate::skip::test_name(place);
    match validity {
        _ if holds => println!("decided: {test}"),
        Ok(()) => panic!("{}", message()),
        Err(reason) => {
            // A whole document may stand in the message: the first words tell the checks of a test apart.
            let message: String = message().chars().take(200).collect();
            println!("undecided: {test}: {} ({})", reason.replace('\n', " "), message.replace('\n', " "));
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_valid_run_decides_and_an_invalid_one_only_what_holds() {
        crate::decide!(true, Ok(()), "not shown");
        crate::decide!(true, Err("late".to_owned()), "not shown");
        crate::decide!(false, Err("late".to_owned()), "{} of 4", 3);
        let failed = std::panic::catch_unwind(|| crate::decide!(false, Ok(()), "{} of 4", 3));
        let words = failed.expect_err("a check that does not hold in a valid run fails");
        assert_eq!(words.downcast_ref::<String>().map(String::as_str), Some("3 of 4"));
    }
}
