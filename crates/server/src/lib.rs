//! The MySQL wire protocol, sessions and admission.
