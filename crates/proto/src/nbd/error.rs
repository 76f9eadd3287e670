//! Errors of a request: NBD protocol, "Error values".

use wire::nbd::error_number;

/// Error that a server answers a request with. The connection goes on, except after [`NbdError::Eshutdown`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum NbdError {
    /// A change of a read-only export.
    #[error(
        "NBD_EPERM: the export does not permit the request, expected a writable export; use it read-only, or allow \
         writes at the server"
    )]
    Eperm,
    /// A failure of the server's device.
    #[error(
        "NBD_EIO: the server's device failed, expected stored data; look for its cause in the server's log"
    )]
    Eio,
    /// No memory at the server.
    #[error("NBD_ENOMEM: the server has no memory for the request; send fewer or shorter requests")]
    Enomem,
    /// A request that breaks a rule of its export, and every error that is not assigned.
    #[error(
        "NBD_EINVAL: the server does not take the request, expected whole blocks inside the export and a command \
         that it offers; compare the request with the size, block sizes and flags of the export"
    )]
    Einval,
    /// A write beyond the end of the export, or no space behind it.
    #[error(
        "NBD_ENOSPC: no space for the data, expected free space and a range inside the export; free space at the \
         server"
    )]
    Enospc,
    /// A length above a limit of the server.
    #[error("NBD_EOVERFLOW: the request is longer than the server's limit; split it")]
    Eoverflow,
    /// NBD_CMD_FLAG_FAST_ZERO where zeroing is no faster than writing.
    #[error(
        "NBD_ENOTSUP: the server cannot zero faster than it writes; repeat without NBD_CMD_FLAG_FAST_ZERO"
    )]
    Enotsup,
    /// The end of the server. The client disconnects.
    #[error("NBD_ESHUTDOWN: the server is shutting down; disconnect, and connect again later")]
    Eshutdown,
}

impl NbdError {
    /// Every error.
    pub const ALL: [NbdError; 8] = [
        NbdError::Eperm,
        NbdError::Eio,
        NbdError::Enomem,
        NbdError::Einval,
        NbdError::Enospc,
        NbdError::Eoverflow,
        NbdError::Enotsup,
        NbdError::Eshutdown,
    ];

    /// The number on the wire, one of [`wire::nbd::error_number`].
    pub const fn code(self) -> u32 {
        match self {
            NbdError::Eperm => error_number::EPERM,
            NbdError::Eio => error_number::EIO,
            NbdError::Enomem => error_number::ENOMEM,
            NbdError::Einval => error_number::EINVAL,
            NbdError::Enospc => error_number::ENOSPC,
            NbdError::Eoverflow => error_number::EOVERFLOW,
            NbdError::Enotsup => error_number::ENOTSUP,
            NbdError::Eshutdown => error_number::ESHUTDOWN,
        }
    }

    /// The error of a number; one that is not assigned counts as EINVAL.
    pub fn from_code(code: u32) -> NbdError {
        NbdError::ALL.into_iter().find(|error| error.code() == code).unwrap_or(NbdError::Einval)
    }
}

/// Reason why a client does not send a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NbdSubmitError {
    /// A command that breaks a rule of the export, with the error that the server would answer.
    #[error("command was not sent: {0}")]
    Refused(NbdError),
    /// Negotiation has not ended.
    #[error("command was submitted during negotiation, expected after it; wait for NbdClientEvent::Ready")]
    NotReady,
    /// The connection is over, or its end was requested.
    #[error("command was submitted on a connection that is over, expected an open one; connect again")]
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let codes = NbdError::ALL.map(NbdError::code);
        assert_eq!(codes, [1, 5, 12, 22, 28, 75, 95, 108]);
        assert_eq!(codes.map(NbdError::from_code), NbdError::ALL);
        assert_eq!([0, 2, 121, u32::MAX].map(NbdError::from_code), [NbdError::Einval; 4]);
        for error in NbdError::ALL {
            assert!(error.to_string().contains("; "), "a next step in: {error}");
        }
    }
}
