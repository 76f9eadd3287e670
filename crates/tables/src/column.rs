//! Declarations of tables: one line a column, from which schema, reader and writer follow.
//!
//! [`table!`] declares a table whose rows are only written: each line has the name of a column, its type, and the
//! expression that takes its value from a row. [`record!`] declares columns that are read back: each line has the name
//! of a column, its type, and the field of the row in it; together they hold all fields of the row. The type is
//! `Vec<u64>`, `Vec<u32>`, `Vec<W>` of a [`Word`], or another struct of [`record!`], whose columns stand in its place.
//! Lines are in file order, and a column has the same name in the file.
//!
//! The lines generate the struct of plain columns, `append`, the push of a row, the reading of a row, and the visit
//! ([`Visit`]) that makes files, their schema and the check against docs/reference/tables.md.

use event::Instant;

use crate::{Visit, Word};

/// A column, or a group of columns, of a table.
pub(crate) trait Column {
    /// Shows the column to `visitor` under `name`; a group shows its columns under their own names.
    fn visit<V: Visit>(&mut self, name: &'static str, visitor: &mut V) -> Result<(), V::Error>;

    /// Adds the values of another such column behind the values of this one.
    fn append(&mut self, other: Self);
}

/// A column, or a group of columns, that holds values of type `T`.
pub(crate) trait Store<T> {
    /// Appends one value.
    fn push(&mut self, value: &T);

    /// Value in row `row`.
    ///
    /// # Panics
    /// If there is no such row.
    fn at(&self, row: usize) -> T;
}

/// A value as Parquet files have it.
pub(crate) trait Plain: Sized {
    /// Shows a column of such values to `visitor`.
    fn visit<V: Visit>(name: &'static str, column: &mut Vec<Self>, visitor: &mut V) -> Result<(), V::Error>;
}

impl<T: Plain> Column for Vec<T> {
    fn visit<V: Visit>(&mut self, name: &'static str, visitor: &mut V) -> Result<(), V::Error> {
        T::visit(name, self, visitor)
    }

    fn append(&mut self, other: Vec<T>) {
        self.extend(other);
    }
}

impl Plain for u64 {
    fn visit<V: Visit>(name: &'static str, column: &mut Vec<u64>, visitor: &mut V) -> Result<(), V::Error> {
        visitor.u64(name, column)
    }
}

impl Plain for u32 {
    fn visit<V: Visit>(name: &'static str, column: &mut Vec<u32>, visitor: &mut V) -> Result<(), V::Error> {
        visitor.u32(name, column)
    }
}

impl<W: Word> Plain for W {
    fn visit<V: Visit>(name: &'static str, column: &mut Vec<W>, visitor: &mut V) -> Result<(), V::Error> {
        visitor.word(name, column)
    }
}

impl<T: Copy> Store<T> for Vec<T> {
    #[inline]
    fn push(&mut self, value: &T) {
        Vec::push(self, *value);
    }

    fn at(&self, row: usize) -> T {
        self[row]
    }
}

/// Nanoseconds.
impl Store<Instant> for Vec<u64> {
    #[inline]
    fn push(&mut self, value: &Instant) {
        Vec::push(self, value.as_nanos());
    }

    fn at(&self, row: usize) -> Instant {
        Instant::from_nanos(self[row])
    }
}

/// 0 or 1.
impl Store<bool> for Vec<u32> {
    #[inline]
    fn push(&mut self, value: &bool) {
        Vec::push(self, u32::from(*value));
    }

    fn at(&self, row: usize) -> bool {
        self[row] != 0
    }
}

/// Makes the struct of plain columns.
macro_rules! columns {
    (
        $(#[$meta:meta])*
        $name:ident {
            $($(#[$column_meta:meta])* $column:ident: $kind:ty,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug, Default)]
        pub struct $name {
            $($(#[$column_meta])* pub $column: $kind,)+
        }

        impl $name {
            /// Adds the rows of another such table behind the rows of this one.
            pub fn append(&mut self, other: $name) {
                $crate::column::Column::append(self, other);
            }
        }

        impl $crate::column::Column for $name {
            fn visit<V: $crate::Visit>(
                &mut self,
                _: &'static str,
                visitor: &mut V,
            ) -> Result<(), V::Error> {
                $($crate::column::Column::visit(&mut self.$column, stringify!($column), visitor)?;)+
                Ok(())
            }

            fn append(&mut self, other: $name) {
                $($crate::column::Column::append(&mut self.$column, other.$column);)+
            }
        }
    };
}

/// Declares a table of rows that are written and not read back. `row` is the name of the row in the expressions; a
/// `let` in the head gives names to values that several columns share.
macro_rules! table {
    (
        $(#[$meta:meta])*
        $name:ident, table $table:literal of $row:ident: $type:ty $(, let $bound:pat = $value:expr)*;
        $($(#[$column_meta:meta])* $column:ident: $kind:ty = $from:expr,)+
    ) => {
        $crate::column::columns! {
            $(#[$meta])*
            $name {
                $($(#[$column_meta])* $column: $kind,)+
            }
        }

        impl $crate::Row for $type {
            const TABLE: &'static str = $table;
            type Columns = $name;

            fn push(&self, columns: &mut $name) {
                let $row = self;
                $(let $bound = $value;)*
                $($crate::column::Store::push(&mut columns.$column, &$from);)+
            }

            fn visit<V: $crate::Visit>(columns: &mut $name, visitor: &mut V) -> Result<(), V::Error> {
                $crate::column::Column::visit(columns, $table, visitor)
            }
        }
    };
}

/// Declares columns that hold all fields of a struct, and give them back.
macro_rules! record {
    (
        $(#[$meta:meta])*
        $name:ident of $type:ident;
        $($(#[$column_meta:meta])* $column:ident: $kind:ty = $field:ident,)+
    ) => {
        $crate::column::columns! {
            $(#[$meta])*
            $name {
                $($(#[$column_meta])* $column: $kind,)+
            }
        }

        impl $crate::column::Store<$type> for $name {
            #[inline]
            fn push(&mut self, value: &$type) {
                let $type { $($field,)+ } = value;
                $($crate::column::Store::push(&mut self.$column, $field);)+
            }

            fn at(&self, row: usize) -> $type {
                $type { $($field: $crate::column::Store::at(&self.$column, row),)+ }
            }
        }
    };
}

pub(crate) use {columns, record, table};
