//! A session: admission of its login, its commands and their transfers, task management, and its command window.

pub(crate) mod admission;
mod command_window;
pub(crate) mod lost_connections;
pub(crate) mod member;
mod parameter_data;
pub(crate) mod request_trace;
pub(crate) mod state;
pub(crate) mod task_management;
pub(crate) mod transfer;
