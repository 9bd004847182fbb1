//! Which sets of rights there are, and which of them a need is met by. Nothing here asks the
//! product.

/// Rights on rows, by their letters.
pub(crate) const RIGHTS: [(char, &str); 5] =
    [('S', "SELECT"), ('I', "INSERT"), ('U', "UPDATE"), ('D', "DELETE"), ('L', "LOCK TABLES")];

/// The rights that a user holds in the databases under test, as their letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held(pub(crate) &'static str);

/// Every set of the rights to read and to change, and LOCK TABLES where it counts.
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
    /// The name of the user who holds them.
    pub(crate) fn user(self) -> String {
        if self.0.is_empty() { "u0".to_owned() } else { format!("u{}", self.0) }
    }

    /// The rights, each with a comma before it.
    pub(crate) fn listed(self) -> String {
        let named = |letter: char| RIGHTS.iter().find(|(other, _)| *other == letter).unwrap().1;
        self.0.chars().map(|letter| format!(", {}", named(letter))).collect()
    }

    fn meets(self, need: &str) -> bool {
        need.chars().any(|letter| self.0.contains(letter))
    }
}

/// Whether rights meet all needs, each of which is the letters of rights of which one will do.
pub(crate) fn allowed(needs: &[&str], held: Held) -> bool {
    needs.iter().all(|need| held.meets(need))
}

/// The users at the border of some needs: those that are just allowed, and those that one right
/// more would be.
pub(crate) fn interesting(needs: &'static [&'static str]) -> impl Iterator<Item = Held> {
    USERS.iter().copied().filter(move |held| {
        let missing = needs.iter().filter(|need| !held.meets(need)).count();
        missing == 1 || (missing == 0 && held.0.len() == needs.len())
    })
}
