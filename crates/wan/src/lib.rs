//! Runs a path model between two namespaces and judges whether the run is valid.
