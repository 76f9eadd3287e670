//! LUNs, SCSI execution, backends, and the serving loop.
