"""Differences of MariaDB from MySQL 8, where Spillway answers as MySQL does. Each has its reason."""

import re

# Text of a pattern in the statement, and a pattern in what differs.
KNOWN = [
    (r"^DELETE", r"^error 1292 instead of None", "strict mode holds for DELETE in MySQL 8, not in MariaDB"),
    (r".", r"^error 1525 instead of", "a constant that is no date, beside a date, is an error in MySQL 8, a warning in MariaDB"),
    (r"UNIX_TIMESTAMP|FROM_UNIXTIME", r"^rows|^left|^error|^kinds", "times of the system end in 2038 in MariaDB, in 3001 in MySQL 8"),
    (r"\) NOT IN \(\(", r"^rows", "a row that has a NULL is in no list or unknown in MariaDB, even where its other parts differ from all items"),
    (r"TIME_TO_SEC", r"^rows|^kinds|^left", "TIME_TO_SEC has a fraction in MariaDB, and is whole in MySQL 8"),
    (r"STD|VAR_", r"^rows", "spreads of exact numbers are rounded in MariaDB, and are doubles in MySQL 8"),
    (r".", r"instead of (1916|1958)", "an overflow of a decimal taken as an integer, and wrong base 64, are errors in MariaDB alone"),
    (r"GREATEST|LEAST", r"^(kinds|rows|left)", "numbers and text are compared as text in MySQL 8, as doubles in MariaDB"),
    (r"TIME.* (YEAR|QUARTER|MONTH|WEEK)\b|(YEAR|QUARTER|MONTH|WEEK),.*TIME", r"^(rows|left|error)", "a time of day moved by months is one of today in MySQL 8, NULL in MariaDB"),
    (r"SELECT b\d FROM b ORDER BY idb LIMIT 1", r"^rows", "the year 0 in a subquery is 0 in MariaDB, and 0000 in MySQL 8"),
    (r"FROM_DAYS", r"^rows|^left|^error", "FROM_DAYS(0) is the zero date in MySQL 8, NULL in MariaDB where zero dates are refused"),
    (r".", r"^warnings", "notes of what a date or a time leaves out differ"),
    (r"^INSERT.* SELECT .* ON DUPLICATE", r"^insert id", "an id that INSERT ... SELECT ... ON DUPLICATE KEY UPDATE is given is told by MySQL 8, not by MariaDB"),
    (r"HAVING EXISTS", r"^error (1055|1140) instead of None", "columns that HAVING names in a subquery are grouped by in MySQL 8, anything in MariaDB"),
    (r"SUM\(DISTINCT", r"^rows", "SUM(DISTINCT ...) in a subquery of a grouped query loses groups in MariaDB"),
    (r"USING (ascii|utf8mb3)", r"instead of (1267|1270|1271)", "text that has a character set is not kept apart here after its conversion"),
    (r"SOUNDEX", r"^kinds", "SOUNDEX of bytes is bytes in MariaDB"),
    (r"AS CHAR|USING utf8mb4|CONCAT|HEX|x'", r"^rows.*\ufffd", "bytes that are no text become question marks in MariaDB"),
]


def known(sql, what, ours, theirs):
    """The reason why a difference is no fault; `None` where it is one."""
    for statement, difference, reason in KNOWN:
        if re.search(statement, sql) and re.search(difference, what or ""):
            return reason
    return None
