//! A session: its commands and their transfers, task management, and its command window.

mod command_window;
pub(crate) mod lingering_calls;
mod lost_connections;
pub(crate) mod management;
pub(crate) mod member;
mod parameter_data;
pub(crate) mod request_trace;
pub(crate) mod state;
mod task_management;
mod tracing;
pub(crate) mod transfer;
