//! iSCSI PDUs: RFC 7143 section 11, one file per PDU.
//!
//! A PDU is a basic header segment of 48 bytes, additional header segments, an optional header digest, and a
//! data segment padded to four bytes with an optional digest. This module knows the headers and the text
//! format; it neither splits a byte stream nor computes digests.

mod bhs;
mod error;
mod field;
mod header;
mod opcode;
mod pdu;

mod async_message;
mod data_in;
mod data_out;
mod login_request;
mod login_response;
mod logout_request;
mod logout_response;
mod nop_in;
mod nop_out;
mod r2t;
mod reject;
mod scsi_command;
mod scsi_response;
mod snack_request;
mod task_management_request;
mod task_management_response;
mod text_request;
mod text_response;

pub mod ahs;
pub mod code;
pub mod text;

#[cfg(test)]
mod check;

pub use crate::scsi::Lun;
pub use async_message::AsyncMessage;
pub use bhs::{Bhs, RESERVED_TAG, padding};
pub use code::{
    async_event, login_stage, login_status, logout_reason, logout_response as logout_response_code,
    reject_reason, snack_kind, task_function, task_response,
};
pub use data_in::DataIn;
pub use data_out::DataOut;
pub use error::Error;
pub use header::BHS_LEN;
pub use login_request::LoginRequest;
pub use login_response::LoginResponse;
pub use logout_request::LogoutRequest;
pub use logout_response::LogoutResponse;
pub use nop_in::NopIn;
pub use nop_out::NopOut;
pub use opcode::Opcode;
pub use pdu::Pdu;
pub use r2t::R2t;
pub use reject::Reject;
pub use scsi_command::{ScsiCommand, TaskAttribute};
pub use scsi_response::{ScsiResponse, put_sense, split_sense};
pub use snack_request::SnackRequest;
pub use task_management_request::TaskManagementRequest;
pub use task_management_response::TaskManagementResponse;
pub use text_request::TextRequest;
pub use text_response::TextResponse;
