//! The sets of privileges, and the rule that decides whether a set satisfies the needs of a
//! statement. This module uses no code of the product.

/// The privileges for rows, by their letters.
pub(crate) const RIGHTS: [(char, &str); 5] =
    [('S', "SELECT"), ('I', "INSERT"), ('U', "UPDATE"), ('D', "DELETE"), ('L', "LOCK TABLES")];

/// The privileges that a user has in the tested databases, as letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held(pub(crate) &'static str);

/// Every set of the privileges to read and to change, and LOCK TABLES where it matters.
pub(crate) const USERS: &[Held] = &[
    Held(""),
    Held("S"),
    Held("I"),
    Held("U"),
    Held("D"),
    Held("L"),
    Held("SI"),
    Held("SU"),
    Held("SD"),
    Held("SL"),
    Held("IU"),
    Held("ID"),
    Held("UD"),
    Held("SIU"),
    Held("SID"),
    Held("SUD"),
    Held("IUD"),
    Held("SIUD"),
];

impl Held {
    /// The name of the user with these privileges.
    pub(crate) fn user(self) -> String {
        if self.0.is_empty() { "u0".to_owned() } else { format!("u{}", self.0) }
    }

    /// The privileges, each preceded by a comma.
    pub(crate) fn listed(self) -> String {
        let named = |letter: char| RIGHTS.iter().find(|(other, _)| *other == letter).unwrap().1;
        self.0.chars().map(|letter| format!(", {}", named(letter))).collect()
    }

    fn meets(self, need: &str) -> bool {
        need.chars().any(|letter| self.0.contains(letter))
    }
}

/// Whether privileges satisfy all needs. Each need lists the letters of privileges of which one is
/// enough.
pub(crate) fn allowed(needs: &[&str], held: Held) -> bool {
    needs.iter().all(|need| held.meets(need))
}

/// The users at the limit of some needs: those who are just allowed, and those who lack only one
/// privilege.
pub(crate) fn interesting(needs: &'static [&'static str]) -> impl Iterator<Item = Held> {
    USERS.iter().copied().filter(move |held| {
        let missing = needs.iter().filter(|need| !held.meets(need)).count();
        missing == 1 || (missing == 0 && held.0.len() == needs.len())
    })
}
