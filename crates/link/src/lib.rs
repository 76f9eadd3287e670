//! The path model: waiting queue, serialiser and propagation as stages that nest.
