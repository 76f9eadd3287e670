//! Requests that wait for the response with their task tag: pings, logouts, task management.

/// Limit of requests without a response; the oldest one gives way. Initiators have one ping, one logout and one task management
/// function per command in recovery outstanding.
const REQUESTS_MAX: usize = 16;

/// Requests of one kind without a response, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct WaitingRequests<T> {
    waiting: Vec<(u32, T)>,
}

impl<T> Default for WaitingRequests<T> {
    fn default() -> Self {
        Self { waiting: Vec::new() }
    }
}

impl<T> WaitingRequests<T> {
    /// Adds a request; returns one that will not be followed any more.
    pub(crate) fn add(&mut self, tag: u32, request: T) -> Option<T> {
        let oldest = (self.waiting.len() == REQUESTS_MAX).then(|| self.waiting.remove(0).1);
        self.waiting.push((tag, request));
        oldest
    }

    /// Removes the request with the tag of a response.
    pub(crate) fn remove(&mut self, tag: u32) -> Option<T> {
        let place = self.waiting.iter().position(|(known, _)| *known == tag)?;
        Some(self.waiting.remove(place).1)
    }

    /// Removes all requests.
    pub(crate) fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.waiting).into_iter().map(|(_, request)| request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_ends_the_oldest_request_with_its_tag() {
        let mut waiting = WaitingRequests::default();
        assert_eq!((0..16).filter_map(|n| waiting.add(n % 8, n)).count(), 0);
        assert_eq!((waiting.remove(3), waiting.remove(3), waiting.remove(3)), (Some(3), Some(11), None));
        assert_eq!(
            (16..19).filter_map(|n| waiting.add(n, n)).collect::<Vec<_>>(),
            [0],
            "the oldest gives way"
        );
        assert_eq!((waiting.take().len(), waiting.take().len()), (16, 0));
    }
}
