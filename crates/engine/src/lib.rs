//! The reactor both ends run on: connections, send queues, timers, worker pool.
