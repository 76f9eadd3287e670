//! Any header as one value.

use super::*;

macro_rules! pdus {
    ($($name:ident,)+) => {
        /// A basic header segment of any kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each variant holds the type of its name")]
        pub enum Pdu {
            $($name($name),)+
        }

        impl Pdu {
            /// Reads a header by its opcode.
            ///
            /// # Errors
            /// [`Error::UnknownOpcode`], and the errors of the PDU's own `parse`.
            pub fn parse(header: &[u8; BHS_LEN]) -> Result<Self, Error> {
                Ok(match Bhs::new(header).opcode()? {
                    $(Opcode::$name => Self::$name($name::parse(header)?),)+
                })
            }

            /// Writes all 48 bytes of the header.
            ///
            /// # Panics
            /// If a value does not fit into its field.
            pub fn emit(&self, header: &mut [u8; BHS_LEN]) {
                match self {
                    $(Self::$name(pdu) => pdu.emit(header),)+
                }
            }

            /// Operation code of the PDU.
            pub const fn opcode(&self) -> Opcode {
                match self {
                    $(Self::$name(_) => Opcode::$name,)+
                }
            }
        }

        $(impl From<$name> for Pdu {
            fn from(pdu: $name) -> Self {
                Self::$name(pdu)
            }
        })+
    };
}

pdus! {
    NopOut,
    ScsiCommand,
    TaskManagementRequest,
    LoginRequest,
    TextRequest,
    DataOut,
    LogoutRequest,
    SnackRequest,
    NopIn,
    ScsiResponse,
    TaskManagementResponse,
    LoginResponse,
    TextResponse,
    DataIn,
    LogoutResponse,
    R2t,
    AsyncMessage,
    Reject,
}

impl Pdu {
    /// Bytes of the data segment that this header announces; 0 for PDUs without one. [`Bhs::data_segment_len`] is the
    /// length in the received header.
    pub const fn data_segment_len(&self) -> u32 {
        match self {
            Self::NopOut(pdu) => pdu.data_segment_len,
            Self::ScsiCommand(pdu) => pdu.data_segment_len,
            Self::LoginRequest(pdu) => pdu.data_segment_len,
            Self::TextRequest(pdu) => pdu.data_segment_len,
            Self::DataOut(pdu) => pdu.data_segment_len,
            Self::NopIn(pdu) => pdu.data_segment_len,
            Self::ScsiResponse(pdu) => pdu.data_segment_len,
            Self::LoginResponse(pdu) => pdu.data_segment_len,
            Self::TextResponse(pdu) => pdu.data_segment_len,
            Self::DataIn(pdu) => pdu.data_segment_len,
            Self::AsyncMessage(pdu) => pdu.data_segment_len,
            Self::Reject(pdu) => pdu.data_segment_len,
            Self::TaskManagementRequest(_)
            | Self::LogoutRequest(_)
            | Self::SnackRequest(_)
            | Self::TaskManagementResponse(_)
            | Self::LogoutResponse(_)
            | Self::R2t(_) => 0,
        }
    }

    /// The initiator task tag; the reserved tag for PDUs that belong to no task.
    pub const fn itt(&self) -> u32 {
        match self {
            Self::NopOut(pdu) => pdu.itt,
            Self::ScsiCommand(pdu) => pdu.itt,
            Self::TaskManagementRequest(pdu) => pdu.itt,
            Self::LoginRequest(pdu) => pdu.itt,
            Self::TextRequest(pdu) => pdu.itt,
            Self::DataOut(pdu) => pdu.itt,
            Self::LogoutRequest(pdu) => pdu.itt,
            Self::SnackRequest(pdu) => pdu.itt,
            Self::NopIn(pdu) => pdu.itt,
            Self::ScsiResponse(pdu) => pdu.itt,
            Self::TaskManagementResponse(pdu) => pdu.itt,
            Self::LoginResponse(pdu) => pdu.itt,
            Self::TextResponse(pdu) => pdu.itt,
            Self::DataIn(pdu) => pdu.itt,
            Self::LogoutResponse(pdu) => pdu.itt,
            Self::R2t(pdu) => pdu.itt,
            Self::AsyncMessage(_) | Self::Reject(_) => RESERVED_TAG,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_pdu_is_refused_by_name() {
        let mut header = [0; BHS_LEN];
        header[0] = Opcode::R2t.code();
        let error = NopIn::parse(&header).expect_err("an R2T is no NOP-In");
        assert_eq!(error, Error::WrongOpcode { expected: Opcode::NopIn, found: Opcode::R2t });
        assert_eq!(error.to_string(), "found a R2t PDU where NopIn was expected");
    }

    #[test]
    fn an_unknown_opcode_is_refused() {
        assert_eq!(Pdu::parse(&[0x07; BHS_LEN]), Err(Error::UnknownOpcode { found: 7 }));
    }
}
