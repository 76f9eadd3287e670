//! The tables of a run, its manifest, and their Parquet files.
