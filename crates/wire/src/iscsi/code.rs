//! Values of the fields that hold codes, one module per field, with a text for each value.

use crate::codes::codes;

codes! {
    /// Reason of a Reject: RFC 7143 section 11.17.1.
    reject_reason: u8 {
        DATA_DIGEST_ERROR = 0x02, "data digest error";
        SNACK_REJECT = 0x03, "SNACK rejected";
        PROTOCOL_ERROR = 0x04, "protocol error";
        COMMAND_NOT_SUPPORTED = 0x05, "command not supported";
        TOO_MANY_IMMEDIATE = 0x06, "too many immediate commands";
        TASK_IN_PROGRESS = 0x07, "task in progress";
        INVALID_DATA_ACK = 0x08, "invalid data acknowledgement";
        INVALID_PDU_FIELD = 0x09, "invalid PDU field";
        LONG_OPERATION_REJECT = 0x0a, "out of resources for a target transfer tag";
        NEGOTIATION_RESET = 0x0b, "negotiation reset";
        WAITING_FOR_LOGOUT = 0x0c, "waiting for logout";
    }

    /// Stage of a login (CSG, NSG): RFC 7143 section 11.12.3.
    login_stage: u8 {
        SECURITY = 0, "security negotiation";
        OPERATIONAL = 1, "operational negotiation";
        FULL_FEATURE = 3, "full feature phase";
    }

    /// Scope of a logout: RFC 7143 section 11.14.1.
    logout_reason: u8 {
        CLOSE_SESSION = 0, "close the session";
        CLOSE_CONNECTION = 1, "close the connection";
        RECOVERY = 2, "remove the connection for recovery";
    }

    /// Result of a logout: RFC 7143 section 11.15.1.
    logout_response: u8 {
        CLOSED = 0, "closed";
        CID_NOT_FOUND = 1, "connection id not found";
        RECOVERY_NOT_SUPPORTED = 2, "connection recovery not supported";
        CLEANUP_FAILED = 3, "cleanup failed";
    }

    /// Task management functions: RFC 7143 section 11.5.1.
    task_function: u8 {
        ABORT_TASK = 1, "abort task";
        ABORT_TASK_SET = 2, "abort task set";
        CLEAR_ACA = 3, "clear ACA";
        CLEAR_TASK_SET = 4, "clear task set";
        LOGICAL_UNIT_RESET = 5, "logical unit reset";
        TARGET_WARM_RESET = 6, "target warm reset";
        TARGET_COLD_RESET = 7, "target cold reset";
        TASK_REASSIGN = 8, "task reassign";
    }

    /// Result of a task management function: RFC 7143 section 11.6.1.
    task_response: u8 {
        COMPLETE = 0, "function complete";
        NO_SUCH_TASK = 1, "task does not exist";
        NO_SUCH_LUN = 2, "LUN does not exist";
        STILL_ALLEGIANT = 3, "task still allegiant";
        REASSIGN_NOT_SUPPORTED = 4, "task allegiance reassignment not supported";
        NOT_SUPPORTED = 5, "function not supported";
        NOT_AUTHORIZED = 6, "function authorization failed";
        REJECTED = 255, "function rejected";
    }

    /// Event of an Asynchronous Message: RFC 7143 section 11.9.1.
    async_event: u8 {
        SCSI = 0, "SCSI asynchronous event";
        LOGOUT_REQUESTED = 1, "target requests logout";
        CONNECTION_DROP = 2, "target will drop the connection";
        SESSION_DROP = 3, "target will drop all connections of the session";
        NEGOTIATION_REQUESTED = 4, "target requests negotiation";
        TASKS_TERMINATED = 5, "all active tasks of the LUN were terminated";
        VENDOR = 255, "vendor-specific event";
    }

    /// Kind of a SNACK: RFC 7143 section 11.16.1.
    snack_kind: u8 {
        DATA_OR_R2T = 0, "Data-In or R2T PDUs again";
        STATUS = 1, "status PDUs again";
        DATA_ACK = 2, "data acknowledgement";
        R_DATA = 3, "data again, resegmented";
    }
}

/// Login status, class in the high and detail in the low byte: RFC 7143 section 11.13.5.
pub mod login_status {
    macro_rules! statuses {
        ($($name:ident = $value:literal, $text:literal;)+) => {
            $(#[doc = concat!("`", stringify!($value), "`: ", $text, ".")]
            pub const $name: (u8, u8) = (($value as u16 >> 8) as u8, $value as u16 as u8);)+

            /// Class and detail in words, for messages. An unknown detail is named by its class (RFC 7143:
            /// an initiator acts on the class alone then), None if the class is unknown too.
            pub const fn text(class: u8, detail: u8) -> Option<&'static str> {
                match (class, detail) {
                    $($name => Some($text),)+
                    (0, _) => Some("success"),
                    (1, _) => Some("redirection"),
                    (2, _) => Some("initiator error"),
                    (3, _) => Some("target error"),
                    _ => None,
                }
            }
        };
    }

    statuses! {
        SUCCESS = 0x0000, "success";
        MOVED_TEMPORARILY = 0x0101, "target moved temporarily";
        MOVED_PERMANENTLY = 0x0102, "target moved permanently";
        INITIATOR_ERROR = 0x0200, "initiator error";
        AUTHENTICATION_FAILURE = 0x0201, "authentication failure";
        AUTHORIZATION_FAILURE = 0x0202, "authorization failure: the initiator may not use this target";
        NOT_FOUND = 0x0203, "target not found";
        TARGET_REMOVED = 0x0204, "target removed";
        UNSUPPORTED_VERSION = 0x0205, "unsupported version";
        TOO_MANY_CONNECTIONS = 0x0206, "too many connections";
        MISSING_PARAMETER = 0x0207, "missing parameter";
        CANNOT_INCLUDE = 0x0208, "the target cannot include the connection in the session";
        SESSION_TYPE_NOT_SUPPORTED = 0x0209, "session type not supported";
        SESSION_DOES_NOT_EXIST = 0x020a, "session does not exist";
        INVALID_DURING_LOGIN = 0x020b, "invalid request during login";
        TARGET_ERROR = 0x0300, "target error";
        SERVICE_UNAVAILABLE = 0x0301, "service unavailable";
        OUT_OF_RESOURCES = 0x0302, "out of resources";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_have_words() {
        assert_eq!(reject_reason::text(reject_reason::PROTOCOL_ERROR), Some("protocol error"));
        assert_eq!(reject_reason::text(0), None);
        assert_eq!(task_response::text(255), Some("function rejected"));
    }

    #[test]
    fn an_unknown_login_detail_has_the_words_of_its_class() {
        assert_eq!(login_status::SESSION_DOES_NOT_EXIST, (2, 0x0a));
        assert_eq!(login_status::text(2, 0x0a), Some("session does not exist"));
        assert_eq!(login_status::text(3, 0x99), Some("target error"));
        assert_eq!(login_status::text(9, 0), None);
    }
}
