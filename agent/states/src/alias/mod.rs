//! The module `alias`: mail aliases in `/etc/aliases`.

pub(crate) mod functions;
