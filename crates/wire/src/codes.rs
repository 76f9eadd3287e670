//! The table that makes a module of constants per field, with a text for each value.

/// Makes one module per field: `name: type { CONSTANT = value, "words"; }`. Each gets the function `text`.
macro_rules! codes {
    ($($(#[$meta:meta])* $module:ident: $type:ty { $($name:ident = $value:expr, $text:literal;)+ })+) => {
        $(
            $(#[$meta])*
            pub mod $module {
                $(#[doc = concat!("`", stringify!($value), "`: ", $text, ".")] pub const $name: $type = $value;)+

                /// The value in words, for messages; `None` if it is not assigned.
                pub const fn text(value: $type) -> Option<&'static str> {
                    match value {
                        $($name => Some($text),)+
                        _ => None,
                    }
                }
            }
        )+
    };
}
pub(crate) use codes;
