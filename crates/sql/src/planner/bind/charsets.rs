//! Binds introducers and CONVERT(... USING ...), and checks where text in a character set other
//! than UTF-8 is used.

use spillway_types::{Collation, Value};
use sqlparser::ast;

use super::Binder;
use crate::errors::{Result, SqlError};
use crate::expression::{
    Charset, Expr, Scalar, Typed, charset_of, in_bytes, refuse_charset, typed_value,
};
use crate::planner::literals::literal;

impl Binder<'_> {
    /// Binds an expression whose result is text in UTF-8, or no text.
    ///
    /// # Errors
    /// 1235 for text in another character set, and the errors of binding.
    pub(crate) fn bind(&mut self, expr: &ast::Expr) -> Result<Typed> {
        let bound = self.bind_any(expr)?;
        refuse_charset(&bound.expr)?;
        Ok(bound)
    }

    /// Binds an argument of a function.
    pub(super) fn argument(&mut self, call: Scalar, expr: &ast::Expr) -> Result<Typed> {
        use Scalar as S;
        let bound = match call {
            S::Length
            | S::OctetLength
            | S::BitLength
            | S::Hex
            | S::Crc32
            | S::Md5
            | S::Sha
            | S::Sha1
            | S::Sha2
            | S::ToBase64
            | S::Ascii => in_bytes(self.bind_any(expr)?),
            // The results of these functions do not depend on the character set.
            S::CharLength | S::CharacterLength | S::Isnull => self.bind_any(expr)?,
            _ => self.bind(expr)?,
        };
        Ok(bound)
    }

    /// A literal after the name of a character set.
    pub(super) fn introduced(&mut self, prefix: &ast::Ident, value: &ast::Expr) -> Result<Typed> {
        let set = Charset::find(prefix.value.strip_prefix('_').unwrap_or(&prefix.value))?;
        let value = match value {
            ast::Expr::Value(value) => literal(&value.value)?,
            other => return Err(SqlError::syntax(format!("near '{other}'"))),
        };
        match value {
            Value::Text(text) if set == Charset::Utf8mb4 => Ok(typed_value(Value::Text(text))),
            Value::Text(text) => set.introduced(text.as_bytes()),
            Value::Bytes(bytes) => set.introduced(&bytes),
            other => Err(SqlError::syntax(format!("near '{}'", other.to_text()))),
        }
    }

    /// CONVERT(... USING ...): bytes are interpreted as text in the set, and text is converted to
    /// it.
    pub(super) fn convert_using(&mut self, inner: Typed, name: &str) -> Result<Typed> {
        let set = Charset::find(name)?;
        match set {
            Charset::Binary => self.cast(in_bytes(inner), "BINARY"),
            Charset::Utf8mb4 => {
                Ok(Typed { collation: Collation::GeneralCi, ..self.cast(inner, "CHAR")? })
            }
            _ => Ok(set.convert(inner)),
        }
    }

    /// CHARSET() and COLLATION() of an argument that names a character set; `None` for other
    /// arguments.
    pub(super) fn charset_named(&self, call: &str, arg: &ast::Expr) -> Result<Option<Typed>> {
        let set = match arg {
            ast::Expr::Nested(inner) => return self.charset_named(call, inner),
            ast::Expr::Prefixed { prefix, .. } => {
                Charset::find(prefix.value.strip_prefix('_').unwrap_or(&prefix.value))?
            }
            ast::Expr::Convert { charset: Some(charset), data_type: None, .. } => {
                Charset::find(&charset.to_string())?
            }
            _ => return Ok(None),
        };
        let (name, collation) = set.names();
        let shown = if call == "charset" { name } else { collation };
        Ok(Some(typed_value(Value::from(shown))))
    }

    /// Binds the sides of a comparison. A constant in another character set is compared as UTF-8 if
    /// the other side's collation takes precedence, which is so for a column, and for a text that
    /// only UTF-8 can represent.
    pub(super) fn sides(&mut self, left: &ast::Expr, right: &ast::Expr) -> Result<[Typed; 2]> {
        let (a, b) = (self.bind_any(left)?, self.bind_any(right)?);
        let in_set = |side: &Typed| charset_of(&side.expr).is_some();
        let yields = |side: &Typed, other: &Typed| {
            let stronger = match &other.expr {
                Expr::Const(Value::Text(text)) => !text.is_ascii(),
                Expr::Const(value) => value.is_null(),
                expr => matches!(expr, Expr::Column(_) | Expr::Outer(..)) && other.ty.is_text(),
            };
            side.expr.is_constant() && stronger && !in_set(other)
        };
        for (side, other) in [(&a, &b), (&b, &a)] {
            if !yields(side, other) {
                refuse_charset(&side.expr)?;
            }
        }
        Ok([a, b])
    }
}
