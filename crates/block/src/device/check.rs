//! Checks of a request before a device executes it: a face that errs gets an error, never another device's bytes.

use super::profile::Profile;
use super::request::{BlockOp, BlockRequest};
use crate::composite::{ByteRange, CompositeAction};
use crate::error::{BlockError, ErrorKind, OperationError};

/// Checks place, length, alignment and permission of a request against the profile of a device.
pub fn check(profile: &Profile, request: &BlockRequest) -> Result<(), OperationError> {
    let transfer = |offset_bytes, len: usize| {
        let range = ByteRange { offset_bytes, len_bytes: len as u64 };
        within(profile, range)?;
        limited(range.len_bytes, u64::from(profile.limits.transfer_bytes), "transfer")
    };
    match &request.op {
        BlockOp::Read { offset_bytes, into } => {
            transfer(*offset_bytes, into.len()).map_err(OperationError::Read)
        }
        BlockOp::Write { offset_bytes, data } => writable(profile)
            .and_then(|()| transfer(*offset_bytes, data.len()))
            .map_err(OperationError::Write),
        BlockOp::Flush => Ok(()),
        BlockOp::Extents { range, .. } => extents(profile, *range).map_err(OperationError::Read),
        BlockOp::Composite(action) if action.is_read() => {
            composite(profile, action).map_err(OperationError::Read)
        }
        BlockOp::Composite(action) => {
            writable(profile).and_then(|()| composite(profile, action)).map_err(OperationError::Write)
        }
    }
}

fn composite(profile: &Profile, action: &CompositeAction) -> Result<(), BlockError> {
    let (is_supported, name) = match action {
        CompositeAction::Fill { .. } => (profile.can.fill, "fill"),
        CompositeAction::Unmap(_) => (profile.can.unmap, "unmap"),
        CompositeAction::Verify(_)
        | CompositeAction::Compare { .. }
        | CompositeAction::Or { .. }
        | CompositeAction::CompareAndWrite { .. } => (profile.can.compare, "compare"),
    };
    if !is_supported {
        return Err(BlockError::new(ErrorKind::Unsupported, format!("the device does not {name}")));
    }
    let range_bytes = profile.limits.range_bytes;
    let block_bytes = u64::from(profile.blocks.logical_bytes);
    let patterned = |span: ByteRange, pattern: &[u8]| {
        within(profile, span)?;
        let (found, all) = (pattern.len() as u64, span.len_bytes);
        match found == block_bytes || found == all || all == 0 {
            true => Ok(()),
            false => {
                let text =
                    format!("the pattern has {found} bytes, a block has {block_bytes}, the range {all}");
                Err(BlockError::new(ErrorKind::Invalid, text))
            }
        }
    };
    let atomic = |offset_bytes, len: usize| {
        within(profile, ByteRange { offset_bytes, len_bytes: len as u64 })?;
        limited(len as u64, u64::from(profile.limits.atomic_bytes), "atomic change")
    };
    match action {
        CompositeAction::Verify(span) => within(profile, *span),
        CompositeAction::Compare { span, pattern } => patterned(*span, pattern),
        CompositeAction::Fill { pattern, .. } if pattern.len() as u64 != block_bytes => {
            let text = format!("the pattern has {} bytes, a block has {block_bytes}", pattern.len());
            Err(BlockError::new(ErrorKind::Invalid, text))
        }
        CompositeAction::Fill { span, .. } => {
            within(profile, *span)?;
            limited(span.len_bytes, range_bytes, "range")
        }
        CompositeAction::Unmap(spans) => {
            spans.iter().try_for_each(|span| within(profile, *span))?;
            let all_bytes = spans.iter().try_fold(0_u64, |sum, span| sum.checked_add(span.len_bytes));
            limited(all_bytes.unwrap_or(u64::MAX), range_bytes, "range")
        }
        CompositeAction::Or { offset_bytes, bits } => atomic(*offset_bytes, bits.len()),
        CompositeAction::CompareAndWrite { expected, new, .. } if expected.len() != new.len() => {
            let text = format!("{} bytes are expected and {} are to be written", expected.len(), new.len());
            Err(BlockError::new(ErrorKind::Invalid, text))
        }
        CompositeAction::CompareAndWrite { offset_bytes, new, .. } => atomic(*offset_bytes, new.len()),
    }
}

fn extents(profile: &Profile, range: ByteRange) -> Result<(), BlockError> {
    if !profile.can.extents {
        return Err(BlockError::new(ErrorKind::Unsupported, "the device does not report extents"));
    }
    if range.len_bytes == 0 {
        return Err(BlockError::new(ErrorKind::Invalid, "the range is empty"));
    }
    within(profile, range)
}

fn writable(profile: &Profile) -> Result<(), BlockError> {
    match profile.can.read_only {
        true => Err(BlockError::new(ErrorKind::Protected, "the device is read-only")),
        false => Ok(()),
    }
}

/// Checks that a range lies within the device and is made of whole blocks.
fn within(profile: &Profile, range: ByteRange) -> Result<(), BlockError> {
    let ByteRange { offset_bytes, len_bytes } = range;
    let block_bytes = u64::from(profile.blocks.logical_bytes);
    if !offset_bytes.is_multiple_of(block_bytes) || !len_bytes.is_multiple_of(block_bytes) {
        let text = format!("{len_bytes} bytes at {offset_bytes} are no whole blocks of {block_bytes} bytes");
        return Err(BlockError::new(ErrorKind::Invalid, text));
    }
    if offset_bytes.checked_add(len_bytes).is_none_or(|end| end > profile.len_bytes) {
        let text =
            format!("{len_bytes} bytes at {offset_bytes} end behind the device's {}", profile.len_bytes);
        return Err(BlockError::new(ErrorKind::OutOfRange, text));
    }
    Ok(())
}

fn limited(found_bytes: u64, limit_bytes: u64, what: &str) -> Result<(), BlockError> {
    match found_bytes > limit_bytes {
        true => {
            let text = format!("a {what} of {found_bytes} bytes, {limit_bytes} at most");
            Err(BlockError::new(ErrorKind::Invalid, text))
        }
        false => Ok(()),
    }
}
