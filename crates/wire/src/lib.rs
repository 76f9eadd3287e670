//! Formats on the wire: iSCSI PDUs, SCSI commands and data, Internet headers.
