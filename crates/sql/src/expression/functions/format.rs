//! FORMAT, and the number formats of locales.

use spillway_types::convert::to_decimal;
use spillway_types::{Decimal, Value};

use crate::errors::{Result, SqlError};
use crate::expression::context::Context;
use crate::expression::operands::{number, text, whole};

/// How a locale writes numbers.
#[derive(Clone, Copy)]
struct Locale {
    point: &'static str,
    /// The text between groups of digits.
    separator: &'static str,
    /// The number of digits in groups other than the last, which has three.
    group: usize,
}

impl Locale {
    const fn new(point: &'static str, separator: &'static str) -> Locale {
        Locale { point, separator, group: 3 }
    }
}

/// The format of `en_US`, and of unknown locales.
const ENGLISH: Locale = Locale::new(".", ",");

/// MySQL's locales, by their number format.
const LOCALES: [(&str, Locale); 9] = [
    (
        "ar_ae ar_bh ar_dz ar_eg ar_in ar_iq ar_jo ar_kw ar_lb ar_ly ar_ma ar_om ar_qa ar_sd ar_sy ar_tn ar_ye en_au en_ca \
         en_gb en_nz en_ph en_us en_za en_zw es_do es_gt es_hn es_mx es_ni es_pa es_pe es_pr es_sv es_us gu_in he_il hi_in \
         ja_jp ko_kr ms_my th_th ur_pk zh_cn zh_hk zh_tw",
        ENGLISH,
    ),
    ("ar_sa sr_rs", Locale::new(".", "")),
    (
        "be_by da_dk de_be de_de de_lu es_ar es_bo es_cl es_co es_ec es_es es_py es_uy es_ve fo_fo hu_hu id_id is_is lt_lt \
         mn_mn nb_no no_no ro_ro ru_ua sq_al tr_tr uk_ua vi_vn",
        Locale::new(",", "."),
    ),
    (
        "ca_es de_at el_gr eu_es fr_be fr_ca fr_ch fr_fr fr_lu gl_es hr_hr it_it nl_be nl_nl pl_pl pt_br pt_pt sl_si",
        Locale::new(",", ""),
    ),
    ("cs_cz es_cr et_ee fi_fi lv_lv mk_mk ru_ru sk_sk sv_fi sv_se", Locale::new(",", " ")),
    ("de_ch", Locale::new(".", "'")),
    ("it_ch rm_ch", Locale::new(",", "'")),
    ("en_in ta_in te_in", Locale { group: 2, ..ENGLISH }),
    // Servers differ in the separator of this locale.
    ("bg_bg", Locale { group: 0, ..ENGLISH }),
];

/// The locale with this name; `None` if there is none.
fn locale(name: &str) -> Option<Locale> {
    let name = name.to_ascii_lowercase();
    let has = |names: &str| names.split_ascii_whitespace().any(|other| other == name);
    LOCALES.iter().find(|(names, _)| has(names)).map(|(_, locale)| *locale)
}

/// FORMAT: the result is NULL if the number or the number of digits is NULL. A NULL locale means
/// `en_US`.
pub(super) fn format(context: &Context<'_>, args: &[Value]) -> Result<Value> {
    if args[..2].iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    args[..2].iter().try_for_each(|arg| context.as_number(arg, "DOUBLE"))?;
    let mut how = ENGLISH;
    if let Some(name) = args.get(2) {
        let name = if name.is_null() { "NULL".to_owned() } else { text(name) };
        match locale(&name) {
            Some(Locale { group: 0, .. }) => {
                return Err(SqlError::unsupported(format!("FORMAT() in the locale {name}")));
            }
            Some(known) => how = known,
            None => context.warn(SqlError::quoting(1649, "Unknown locale: '", &name, "'")),
        }
    }
    Ok(Value::Text(format_number(&args[0], whole(&args[1]), &how)))
}

/// A double with this many digits after the point: those of its shortest form, padded with zeros.
fn exact_digits(number: f64, digits: usize) -> String {
    let shortest = number.to_string();
    let (whole, part) = shortest.split_once('.').unwrap_or((&shortest, ""));
    match (part.len() <= digits, digits) {
        (true, 0) => whole.to_owned(),
        (true, _) => format!("{whole}.{part:0<digits$}"),
        (false, _) => format!("{number:.digits$}"),
    }
}

/// FORMAT: a number with this many digits after the point, in the format of a locale.
fn format_number(value: &Value, digits: i64, locale: &Locale) -> String {
    let digits = digits.clamp(0, 30) as u8;
    let shown = match value {
        Value::Float(_) | Value::Double(_) | Value::Text(_) | Value::Bytes(_) => {
            let x = number(value);
            let factor = 10f64.powi(i32::from(digits));
            let scaled = x * factor;
            let rounded = if scaled.is_finite() && scaled.abs() < 1e15 {
                scaled.round_ties_even() / factor
            } else {
                x
            };
            exact_digits(rounded, usize::from(digits))
        }
        other => to_decimal(&other.as_ref()).unwrap_or(Decimal::ZERO).round(digits).to_string(),
    };
    let (sign, shown) = shown.strip_prefix('-').map_or(("", shown.as_str()), |rest| ("-", rest));
    let (whole, part) = shown.split_once('.').unwrap_or((shown, ""));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let left = whole.len() - at;
        if at > 0 && left >= 3 && (left - 3) % locale.group == 0 {
            grouped.push_str(locale.separator);
        }
        grouped.push(digit);
    }
    let point = if part.is_empty() { "" } else { locale.point };
    format!("{sign}{grouped}{point}{part}")
}
