"""Differences of MariaDB from MySQL 8, where Spillway answers as MySQL does. Each has its reason."""

import re

# Columns as `typed` writes them.
NUMBER = r"(?:id[ab]|[ab]\d+):(?:\w*INT|DECIMAL|FLOAT|DOUBLE|BIT|YEAR)(?: UNSIGNED)?"
TEXT = r"[ab]\d+:(?:VARCHAR|CHAR|VARBINARY|BINARY|TEXT|BLOB|ENUM|SET)(?: COLLATE \w+)?"
MOMENT = r"[ab]\d+:(?:DATE|TIME|DATETIME|TIMESTAMP)\b(?:\(\d\))?"
COMPARED = r"(?:=|<=>|<>|<|>=|<=|>)"
# Something whose value is a time of day.
SPAN = r"(?:TIME'|[ab]\d+:TIME\b|TIMEDIFF\(|TIME\(|SEC_TO_TIME\(|MAKETIME\()"
# A time with half a second or more.
HALF = r"(?:TIME(?:STAMP)?'[^']*\.[5-9]\d*'|[ab]\d+:(?:TIME|DATETIME)\(\d\))"
PART_OF_DATE = r"(?:EXTRACT\((?:YEAR|QUARTER|MONTH|WEEK|DAY|YEAR_MONTH) FROM |\b(?:YEAR|QUARTER|MONTH|WEEK|YEARWEEK|WEEKOFYEAR|WEEKDAY|DAY|DAYOFWEEK|DAYOFYEAR|DAYNAME|MONTHNAME|LAST_DAY|TO_DAYS|TO_SECONDS)\()"


def negative_zeros(ours, theirs):
    """Whether only zeros that MariaDB writes as negative differ."""
    plain = lambda value: value[1:] if value and re.fullmatch(r"-0\.?0*", value) else value
    return ours.rows == tuple(tuple(map(plain, row)) for row in theirs.rows)


def question_marks(ours, theirs):
    """Whether what differs is NULL here and has a question mark there."""
    pairs = [pair for rows in zip(ours.rows, theirs.rows) for pair in zip(*rows) if pair[0] != pair[1]]
    return len(ours.rows) == len(theirs.rows) and all(a is None and "?" in (b or "") for a, b in pairs)


def same_moments(ours, theirs):
    """Whether only zeros at the end of fractions differ."""
    plain = lambda value: re.sub(r"(:\d\d)\.?(\d*?)0*$", r"\1.\2", value) if value else value
    return tuple(tuple(map(plain, row)) for row in ours.rows) == tuple(tuple(map(plain, row)) for row in theirs.rows)


def cut_off(ours, theirs):
    """Whether what differs is what is there with one character more."""
    pairs = [pair for rows in zip(ours.rows, theirs.rows) for pair in zip(*rows) if pair[0] != pair[1]]
    return len(ours.rows) == len(theirs.rows) and all(a and b and a[:-1] == b for a, b in pairs)


# A pattern in the statement as `typed` writes it, a pattern in what differs, and the reason. A
# check of the answers may follow.
KNOWN = [
    (r"^DELETE", r"^error 1292 instead of None", "strict mode holds for DELETE in MySQL 8, not in MariaDB"),
    (r".", r"^error 1525 instead of", "a constant that is no date, beside a date, is an error in MySQL 8, a warning in MariaDB"),
    (r"UNIX_TIMESTAMP|FROM_UNIXTIME", r"^rows|^left|^error|^kinds", "times of the system end in 2038 in MariaDB, in 3001 in MySQL 8"),
    (r"\) NOT IN \(\(", r"^rows", "a row that has a NULL is in no list or unknown in MariaDB, even where its other parts differ from all items"),
    (r"TIME_TO_SEC", r"^rows|^kinds|^left", "TIME_TO_SEC has a fraction in MariaDB, and is whole in MySQL 8"),
    (r"STD|VAR_", r"^rows", "spreads of exact numbers are rounded in MariaDB, and are doubles in MySQL 8"),
    (r".", r"instead of (1916|1958)", "an overflow of a decimal taken as an integer, and wrong base 64, are errors in MariaDB alone"),
    (r"GREATEST|LEAST", r"^(kinds|rows|left|error None instead of 1292)", "numbers and text are compared as text in MySQL 8, as doubles in MariaDB"),
    (r"TIME.* (YEAR|QUARTER|MONTH|WEEK|YEAR_MONTH)\b|(YEAR|QUARTER|MONTH|WEEK),.*TIME", r"^(rows|left|error)", "a time of day moved by months is one of today in MySQL 8, NULL in MariaDB"),
    (r"SELECT b\d\S* FROM b ORDER BY \S+ LIMIT 1", r"^rows", "the year 0 in a subquery is 0 in MariaDB, and 0000 in MySQL 8"),
    (r"FROM_DAYS", r"^rows|^left|^error", "FROM_DAYS(0) is the zero date in MySQL 8, NULL in MariaDB where zero dates are refused"),
    (r".", r"^warnings", "notes of what a date or a time leaves out differ"),
    (r"^INSERT.* SELECT .* ON DUPLICATE", r"^insert id", "an id that INSERT ... SELECT ... ON DUPLICATE KEY UPDATE is given is told by MySQL 8, not by MariaDB"),
    (r"HAVING EXISTS", r"^error (1055|1140) instead of None", "columns that HAVING names in a subquery are grouped by in MySQL 8, anything in MariaDB"),
    (r"SUM\(DISTINCT", r"^rows", "SUM(DISTINCT ...) in a subquery of a grouped query loses groups in MariaDB"),
    (r"USING (ascii|utf8mb3)", r"instead of (1267|1270|1271)", "text that has a character set is not kept apart here after its conversion"),
    (r"AS CHAR|USING utf8mb4", r"^rows", "bytes that are no text are NULL after a conversion in MySQL 8, and have question marks in MariaDB", question_marks),
    (r"(BIN|OCT|CONV)\((0x|x'|_binary)", r"^(rows|left)", "a hexadecimal literal is a number to BIN, OCT and CONV in MySQL 8, a text in MariaDB"),
    (rf"\([ab]\d+:YEAR {COMPARED} -?[\d.]+\)", r"^rows", "a YEAR beside a number below 100 is compared as a number in MySQL 8, as a year in MariaDB"),
    (r"UNION (ALL )?SELECT [ab]\d+:FLOAT", r"^rows", "a FLOAT beside a text in UNION has the digits of a double in MariaDB"),
    (r"IFNULL\(0x\d+,0x\d+\)", r"^(kinds|rows)", "IFNULL of hexadecimal literals is bytes in MySQL 8, and still a number in MariaDB"),
    (r"\b[ab]\d+:ENUM\b.*'(0|00)'", r"^(error None instead of 1265|left|warnings)", "a text of zero is no member of an ENUM in MySQL 8, and no value in MariaDB"),
    (r"^INSERT IGNORE.*\b[ab]\d+:SET\b.*'12'", r"^left", "a number in a text that is beyond a SET's members is empty in MySQL 8, and some of them in MariaDB"),
    (rf"NULLIF\([\d.e]+,{MOMENT}\)", r"^error None instead of 1292", "a number in NULLIF beside a date is compared as a number in MySQL 8, as a date in MariaDB"),
    (r"TRIM\(LEADING [ab]\d+:BINARY FROM '[^']*[^ -~]", r"^rows", "TRIM of bytes from a text cuts letters in MariaDB"),
    (r"AVG\(CAST\(.* AS CHAR", r"^rows", "AVG of a text has four decimals in MariaDB"),
    (r"([ab]\d+:(BLOB|TEXT)\b.*\b[ab]\d+:BIT|[ab]\d+:BIT.*\b[ab]\d+:(BLOB|TEXT)\b)", r"^(left|error|affected)", "a BIT goes into a BLOB or a TEXT as bytes in MySQL 8, as digits in MariaDB"),
    (r" IGNORE ", r"instead of 4025", "a row that violates a CHECK is left out with IGNORE in MySQL 8, and is an error in MariaDB"),
    (r"(DATE_ADD|DATE_SUB|TIMESTAMPADD|INTERVAL|CAST).*(ADDTIME|SUBTIME)\(", r"^(rows|left)", "a time of day that ADDTIME gives as text is one of today to DATE_ADD in MySQL 8, and stays a time in MariaDB"),
    (r"CONVERT\([ab]\d+:(VARBINARY|BINARY|BLOB) USING (utf8mb4|utf8mb3|ascii)\)", r"^(rows|affected|left)", "bytes that are no text are NULL after a conversion in MySQL 8, and have question marks in MariaDB"),
    (r".", r"^error 3854 instead of None", "bytes that are no text are an error beside text in MySQL 8, not in MariaDB"),
    (r"CAST\(.* AS BINARY\(", r"^rows", "a cast to BINARY cuts no letters in MariaDB", lambda ours, theirs: len(ours.rows[0][0]) < len(theirs.rows[0][0])),
    (r"[LR]PAD\(-?[\d.]+,", r"^rows", "the text of a number is latin1 to LPAD and RPAD in MariaDB"),
    (r"JSON_", r"^error 3141 instead of None", "a text that is no JSON is an error to JSON functions in MySQL 8, a warning in MariaDB"),
    (r"^PREPARE .* GROUP BY ", r"^error None instead of 1055", "an expression of a grouped expression and a parameter depends on the group in MySQL 8, not in MariaDB"),
    (r"TIME_FORMAT\(.*%T", r"^rows", "TIME_FORMAT cuts the last digit of a negative time off in MariaDB", cut_off),
    (r"^UPDATE (?!IGNORE).* WHERE .*'", r"^error 1292 instead of None", "strict mode holds for constants in the WHERE of an UPDATE in MySQL 8, not in MariaDB",
     lambda ours, theirs: theirs.warnings > 0),
    (r"\b(MIN|MAX)\([ab]\d+:BIT", r"^rows", "MIN and MAX of BIT are digits in MariaDB", lambda ours, theirs: "bit" in ours.kinds),
    (rf"\((?:{MOMENT} {COMPARED} (?:{NUMBER}|{TEXT})|(?:{NUMBER}|{TEXT}) {COMPARED} {MOMENT})\)", r"^(rows|left|affected)",
     "a column of dates or times and one of numbers or texts are compared as numbers or texts in MySQL 8, as times in MariaDB"),
    (rf"\({NUMBER} (?:NOT )?BETWEEN .*{MOMENT}", r"^rows", "a column of numbers BETWEEN times is compared as a number in MySQL 8, as a time in MariaDB"),
    (rf"TIMESTAMP'[^']*' {COMPARED} COALESCE\([\d.]+,{MOMENT}", r"^rows", "COALESCE of a number and a time is a text that is no date in MySQL 8, and compares with no date"),
    (r"-\(DATE'", r"^kinds .*'integer'.* instead of .*'decimal'", "the negative of a DATE is a decimal in MariaDB"),
    (rf"{PART_OF_DATE}{SPAN}", r"^(rows|left|error)", "a part of a date of a time of day is that of today in MySQL 8, zero or NULL in MariaDB"),
    (r"UNION (ALL )?SELECT NULL", r"^kinds .*'integer'.* instead of .*'decimal'", "an unsigned column beside NULL is a decimal in MariaDB"),
    (r"'\d{4}-[^']*' [+-] INTERVAL|(?:DATE_ADD|DATE_SUB|ADDDATE|TIMESTAMPADD)\(.*'\d{4}-", r"^(rows|left)", "a date given as text moves to one with six digits or none in MySQL 8, with those of the interval in MariaDB",
     lambda ours, theirs: same_moments(ours, theirs)),
    (r"EXTRACT\((?:HOUR|DAY_)\w* FROM (?:[ab]\d+:TIME\b|ADDTIME|SUBTIME|TIMEDIFF|SEC_TO_TIME|MAKETIME)", r"^(rows|left)", "a span of more than a day has hours alone in MySQL 8, and days in MariaDB"),
    (rf"CAST\({HALF} AS (?:UN)?SIGNED\)", r"^(rows|left)", "a time is rounded to an integer in MySQL 8, and cut off in MariaDB"),
    (rf"DATE_FORMAT\({SPAN}", r"^(rows|left|error)", "DATE_FORMAT of a time of day is that of today in MySQL 8, NULL in MariaDB where it asks for a day's name"),
    (r"TIMESTAMP\(.*,(DATE'|TIMESTAMP'|[ab]\d+:(?:DATE|DATETIME|TIMESTAMP)\b)", r"^(rows|left|error)", "TIMESTAMP adds the time of a date and time in MySQL 8, and is NULL in MariaDB"),
    (r"(ADDTIME|SUBTIME)\((DATE'|LAST_DAY\(|STR_TO_DATE\(|[ab]\d+:DATE\b)", r"^kinds .*'text'.* instead of .*'datetime'", "ADDTIME and SUBTIME of a DATE are text in MySQL 8"),
    (r"%|MOD\(", r"^rows", "a remainder of zero may be negative in MariaDB", negative_zeros),
    (r"\bREPLACE\(.*,NULL\)", r"^(rows|left)", "REPLACE of NULL is NULL in MySQL 8, the text where nothing is replaced in MariaDB"),
    (r"CASE [-\d.e]+ WHEN TIMESTAMP'", r"^error None instead of 1292", "a number beside a TIMESTAMP in CASE is compared as a number in MySQL 8, as a date in MariaDB"),
    (r"[ab]\d+:(ENUM|SET) (NOT )?IN \(SELECT [ab]\d+:\w*INT", r"^rows", "an ENUM in a subquery's numbers is its number in MySQL 8, its text in MariaDB"),
    (rf"[ab]\d+:TIME\S* {COMPARED} (ANY|ALL) \(SELECT {NUMBER}|({NUMBER}|{TEXT}) {COMPARED} (ANY|ALL) \(SELECT [ab]\d+:TIME", r"^rows", "a TIME beside a subquery's numbers or texts is compared as a number or a text in MySQL 8, as a time in MariaDB"),
    (rf"('2024-12-31' {COMPARED} {SPAN}|{SPAN}\S* {COMPARED} '2024-12-31')", r"^(rows|left|affected)", "a text that is no time is compared with a time as text in MySQL 8, as the time that it begins with in MariaDB"),
    (r"BIT_(AND|OR|XOR)\(99999999999999999999\.5\)", r"^rows", "a decimal beyond 64 bits is 18446744073709551615 to bit operations in MySQL 8, 9223372036854775807 in MariaDB"),
    (r"CAST\(TIME'-\S+ AS UNSIGNED\)", r"^(rows|left)", "a negative time as an unsigned number wraps around in MySQL 8, and is 0 in MariaDB"),
    (r"\bROUND\(-?\d+,-\d+\)", r"^kinds .*'integer'.* instead of .*'decimal'", "a whole constant rounded to tens is a decimal in MariaDB"),
    (r"GROUP BY -\d+", r"^error (1055|None) instead of 1054", "a negative number in GROUP BY is a position in MariaDB"),
    (rf"NULLIF\({SPAN}[^,]*,-?[\d.e]+\)", r"^(rows|left|error)", "a time in NULLIF beside a double is a time of MariaDB's own"),
    (r"> ALL \(SELECT id[ab]:INT FROM [ab] WHERE \(id[ab]:INT = '?1\.50?'?\)", r"^rows", "1 > ALL is false in MariaDB for the rows whose whole number equals a fraction, of which there are none"),
    (r"^(INSERT|REPLACE|UPDATE).*[ab]\d+:TIMESTAMP.*\bNULL\b", r"^error 1048 instead of None", "NULL for a TIMESTAMP NOT NULL is the time of the statement in MariaDB"),
    (r"\(SELECT COUNT\(.*\) UNION SELECT COUNT\(.*\)\) FROM [ab]", r"^rows", "an outer COUNT in a UNION is NULL in MariaDB where no row is counted",
     lambda ours, theirs: any("0" in row for row in ours.rows) and any(None in row for row in theirs.rows)),
    (r"(?=.*\b1e(300|20)\b).*([|&^~]|<<|>>|BIT_COUNT)", r"^(rows|left)", "a double beyond 64 bits is 9223372036854775807 to bit operations in MySQL 8, 18446744073709551615 in MariaDB"),
]


def typed(sql, types):
    """The statement with each column's type behind its name, as in `(a1:TIME = b1:INT UNSIGNED)`; texts are left alone."""
    def named(found):
        ty = types.get(found.group())
        return f"{found.group()}:{short(ty)}" if ty else found.group()

    parts = re.split(r"('(?:[^'\\]|\\.|'')*')", sql)
    return "".join(part if part.startswith("'") else re.sub(r"\b(?:id[ab]|[ab]\d+)\b", named, part) for part in parts)


def short(ty):
    """A type without its length or its members; a time keeps its digits."""
    return re.sub(r"^(?!TIME|DATETIME)(\w+)\(.*\)", r"\1", ty).replace(" NULL", "")


def known(sql, what, ours, theirs, types):
    """The reason why a difference is no fault; `None` where it is one. `types` has the columns' types by their names."""
    sql = typed(sql, types)
    for statement, difference, reason, *answers in KNOWN:
        if re.search(statement, sql) and re.search(difference, what or "") and all(holds(ours, theirs) for holds in answers):
            return reason
    return None
