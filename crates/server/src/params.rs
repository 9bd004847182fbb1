//! The parameters of COM_STMT_EXECUTE.

use std::collections::HashMap;

use spillway_types::{Date, DateTime, Time, Value};

use crate::packet::Take;

/// What the server keeps of a statement for its executions.
#[derive(Default)]
pub(crate) struct Bound {
    /// The types of the last execution that said them: type, and whether unsigned.
    types: Vec<(u8, bool)>,
    /// Parameters that came in pieces.
    pub(crate) long: HashMap<u16, Vec<u8>>,
}

/// Reads the parameters after the fixed head of the command; `None` where they make no sense.
pub(crate) fn read_params(bytes: &[u8], count: usize, bound: &mut Bound) -> Option<Vec<Value>> {
    let long = std::mem::take(&mut bound.long);
    if count == 0 {
        return Some(Vec::new());
    }
    let mut take = Take(bytes);
    let nulls = take.bytes(count.div_ceil(8))?;
    if take.u8()? == 1 {
        let mut types = Vec::with_capacity(count);
        for _ in 0..count {
            let [kind, flags] = take.array::<2>()?;
            types.push((kind, flags & 0x80 != 0));
        }
        bound.types = types;
    }
    if bound.types.len() != count {
        // A client that has only ever bound NULLs need not say of which type.
        let all_null = (0..count).all(|at| nulls[at / 8] >> (at % 8) & 1 == 1);
        return all_null.then(|| vec![Value::Null; count]);
    }
    let mut values = Vec::with_capacity(count);
    for (at, (kind, unsigned)) in bound.types.iter().enumerate() {
        if let Some(bytes) = u16::try_from(at).ok().and_then(|at| long.get(&at)) {
            values.push(text_or_bytes(bytes, *kind));
        } else if nulls[at / 8] >> (at % 8) & 1 == 1 {
            values.push(Value::Null);
        } else {
            values.push(read_value(&mut take, *kind, *unsigned)?);
        }
    }
    Some(values)
}

fn text_or_bytes(bytes: &[u8], kind: u8) -> Value {
    // Blob types are bytes, where the driver says so; drivers send text as those as well.
    match std::str::from_utf8(bytes) {
        Ok(text) if !(249..=252).contains(&kind) || !bytes.contains(&0) => {
            Value::Text(text.to_owned())
        }
        _ => Value::Bytes(bytes.to_vec()),
    }
}

fn read_value(take: &mut Take<'_>, kind: u8, unsigned: bool) -> Option<Value> {
    let integer =
        |signed: i64, plain: u64| if unsigned { Value::UInt(plain) } else { Value::Int(signed) };
    Some(match kind {
        6 => Value::Null,
        1 => {
            let byte = take.u8()?;
            integer(i64::from(byte as i8), u64::from(byte))
        }
        2 | 13 => {
            let number = take.array().map(u16::from_le_bytes)?;
            integer(i64::from(number as i16), u64::from(number))
        }
        3 | 9 => {
            let number = take.u32()?;
            integer(i64::from(number as i32), u64::from(number))
        }
        8 => {
            let number = take.array().map(u64::from_le_bytes)?;
            integer(number as i64, number)
        }
        4 => {
            let number = take.array().map(f32::from_le_bytes)?;
            Value::Double(number.to_string().parse().unwrap_or(f64::from(number)))
        }
        5 => Value::Double(take.array().map(f64::from_le_bytes)?),
        7 | 10 | 12 | 14 => {
            let len = take.u8()?;
            let mut date = Take(take.bytes(usize::from(len))?);
            if len == 0 {
                return Some(Value::DateTime(DateTime::default()));
            }
            let year = date.array().map(u16::from_le_bytes)?;
            let (month, day) = (date.u8()?, date.u8()?);
            let day = Date::new(year, month, day)?;
            let micros = if len >= 7 {
                let clock = [date.u8()?, date.u8()?, date.u8()?].map(u64::from);
                let part = if len >= 11 { u64::from(date.u32()?) } else { 0 };
                (clock[0] * 3600 + clock[1] * 60 + clock[2]) * 1_000_000 + part
            } else {
                0
            };
            if kind == 10 {
                Value::Date(day)
            } else {
                Value::DateTime(DateTime { date: day, micros: micros.min(86_399_999_999) })
            }
        }
        11 => {
            let len = take.u8()?;
            let mut span = Take(take.bytes(usize::from(len))?);
            if len == 0 {
                return Some(Value::Time(Time::default()));
            }
            let negative = span.u8()? == 1;
            let days = i64::from(span.u32()?);
            if days > 1000 {
                return None;
            }
            let clock = [span.u8()?, span.u8()?, span.u8()?].map(i64::from);
            let part = if len >= 12 { i64::from(span.u32()?) } else { 0 };
            let seconds = days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2];
            let micros = seconds * 1_000_000 + part;
            Value::Time(Time { micros: if negative { -micros } else { micros } })
        }
        0 | 15 | 16 | 245..=255 => {
            let bytes = take.sized()?;
            match kind {
                0 | 246 => Value::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
                kind => text_or_bytes(bytes, kind),
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_parameters_or_none() {
        let mut rng = spillway_base::rng::Rng::new(5);
        let (mut some, mut none) = (0, 0);
        for _ in 0..50_000 {
            let mut bytes = vec![0; rng.below(60) as usize];
            rng.fill(&mut bytes);
            if bytes.len() > 2 {
                bytes[1] = 1;
                bytes[2] %= 16;
            }
            let mut bound = Bound::default();
            match read_params(&bytes, 1 + rng.below(2) as usize, &mut bound) {
                Some(_) => some += 1,
                None => none += 1,
            }
        }
        assert!(some > 10 && none > 1000, "{some} {none}");
    }

    #[test]
    fn types_are_remembered_and_truncation_is_noticed() {
        let mut bound = Bound::default();
        let first = [0, 1, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0];
        assert!(matches!(read_params(&first, 1, &mut bound).as_deref(), Some([Value::Int(5)])));
        let again = [0, 0, 6, 0, 0, 0, 0, 0, 0, 0];
        assert!(matches!(read_params(&again, 1, &mut bound).as_deref(), Some([Value::Int(6)])));
        assert!(read_params(&again[..9], 1, &mut bound).is_none());
        assert!(read_params(&again, 1, &mut Bound::default()).is_none());
    }
}
