//! Policies: what a session should have outstanding and how fast it should send.
