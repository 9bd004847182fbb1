"""Random expressions, as trees that can be made smaller while they still show a difference."""

class Node:
    """SQL text with `{}` where its parts stand."""

    __slots__ = ("text", "parts")

    def __init__(self, text, *parts):
        self.text = text
        self.parts = [part if isinstance(part, Node) else Node(str(part)) for part in parts]

    def __str__(self):
        if not self.parts:
            return self.text
        return self.text.format(*self.parts)

    def size(self):
        return 1 + sum(part.size() for part in self.parts)

    def places(self):
        """Every node, as its parent and its place there."""
        for at, part in enumerate(self.parts):
            yield self, at
            yield from part.places()


def copy(node):
    made = Node(node.text)
    made.parts = [copy(part) for part in node.parts]
    return made


# Each type: how it is declared, and literals of values that it holds.
TYPES = {
    "TINYINT": ["0", "1", "-1", "127", "-128"],
    "TINYINT UNSIGNED": ["0", "1", "255"],
    "SMALLINT": ["0", "-32768", "32767", "12"],
    "MEDIUMINT UNSIGNED": ["0", "16777215", "7"],
    "INT": ["0", "1", "2", "-7", "2147483647", "-2147483648", "20240229", "101112"],
    "INT UNSIGNED": ["0", "1", "4294967295"],
    "BIGINT": ["0", "1", "-3", "9223372036854775807", "-9223372036854775808"],
    "BIGINT UNSIGNED": ["0", "2", "9223372036854775808", "18446744073709551615"],
    "DECIMAL(10,2)": ["0", "1.50", "-1.50", "99999999.99", "-0.01", "2.345"],
    "DECIMAL(30,10)": ["0", "0.0000000001", "-12345678901234567890.0123456789", "2.5"],
    "DECIMAL(5,0)": ["0", "99999", "-2"],
    "DECIMAL(24,6)": ["9007199254740992", "9007199254740992.000001", "9007199254740993", "-9007199254740992.000001", "1.5"],
    "FLOAT": ["0", "1.75", "-2.25", "0.1", "1e10", "3.4e38", "-1e-10"],
    "DOUBLE": ["0", "1.75", "0.1", "-2.25", "1e300", "1e-300", "123456789.125", "1e15", "1e16"],
    "BIT(1)": ["0", "1"],
    "BIT(10)": ["0", "1", "513", "1023"],
    "CHAR(5)": ["''", "'a'", "'A'", "'é'", "'ab c'", "'5'", "'a\\t'", "'a \\0b'", "'abcde'"],
    "VARCHAR(20)": ["''", "'a'", "'A '", "' a'", "'12'", "'-1.5e1x'", "'Grüße'", "'世界🌊'", "'2024-02-29'", "'a\\'b\\\\c'", "'a\\t'", "'A \\n'", "'%_'"],
    "VARCHAR(20) COLLATE utf8mb4_bin": ["''", "'a'", "'A '", "'b'", "'É'", "'a\\t'", "'a  \\0'", "'12'"],
    "TEXT": ["''", "'text'", "'TEXT  '", "'ß'", "'text\\n'", "'1,2,3'"],
    "BINARY(4)": ["''", "'a'", "x'00ff'", "'abcd'"],
    "VARBINARY(10)": ["''", "'a'", "'A '", "x'00'", "x'ff00'", "'12'"],
    "BLOB": ["''", "'blob'", "x'c3a9'"],
    "DATE": ["'2024-02-29'", "'1000-01-01'", "'9999-12-31'", "'2023-12-31'"],
    "TIME": ["'00:00:00'", "'-838:59:59'", "'838:59:59'", "'12:34:56'"],
    "TIME(3)": ["'00:00:00.001'", "'-01:02:03.456'", "'23:59:59.999'"],
    "DATETIME": ["'2024-02-29 00:00:00'", "'2023-12-31 23:59:59'", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"],
    "DATETIME(6)": ["'2024-02-29 12:34:56.789012'", "'2024-01-01 00:00:00.000001'"],
    "TIMESTAMP NULL": ["'1970-01-01 00:00:01'", "'2024-02-29 12:00:00'", "'2038-01-19 03:14:07'"],
    "YEAR": ["1901", "2000", "2024", "2155"],
    "ENUM('b','a','C')": ["'a'", "'b'", "'C'"],
    "SET('x','y','z')": ["''", "'x'", "'y,z'", "'x,y,z'"],
}

LITERALS = {
    "number": ["0", "1", "2", "-1", "3", "10", "255", "-128", "2147483648", "9223372036854775807", "-9223372036854775808",
               "18446744073709551615", "0.5", "1.5", "-1.5", "2.50", "-0.05", "1.005", "12345.6789", "99999999999999999999.5",
               "1e0", "1.75e0", "-2.25e0", "1e20", "1e-7", "0.1e0", "1e300"],
    "text": ["''", "'a'", "'A'", "'b '", "' b'", "'abc'", "'12'", "'-3.7'", "'1e2'", "'12abc'", "'é'", "'É'", "'Straße'", "'世界'",
             "'🌊'", "'a,b,c'", "'a%'", "'\\\\'", "'2024-02-29'", "'2024-02-29 12:34:56.5'", "'12:34:56'", "'x\\'y'", "'00'", "'a\\t'", "'A \\t'"],
    "bytes": ["0x61", "0x00", "_binary'abc'", "_binary'12'", "0x3132"],
    "time": ["DATE'2024-02-29'", "DATE'1999-12-31'", "TIME'12:34:56'", "TIME'-01:00:00.5'", "TIMESTAMP'2024-02-29 23:59:59'",
             "TIMESTAMP'2024-01-31 00:00:00.123456'", "'2024-12-31'", "'2023-02-28 10:11:12'", "'11:59:59.999999'"],
    "small": ["0", "1", "2", "3", "-1", "5", "-3", "30"],
}

NUMBER = "number"
TEXT = "text"
TIME = "time"
SMALL = "small"
ANY = "any"

CHARSETS = "latin1 ascii utf8mb3 utf8mb4 ucs2 utf16 utf16le utf32 binary".split()

# Literals of a character set.
INTRODUCED = ["_latin1 x'e4'", "_latin1 'é'", "_latin1 'abc'", "_latin1 x'8099'", "_utf8mb4 x'c3a4'", "_utf8mb3 'ä'", "_binary 'ä'", "_ucs2 x'00e4'",
              "_utf16 x'd83cdf63'", "_utf16le x'e400'", "_utf32 x'000000e4'", "_ascii 'a'"]

LOCALES = ["'en_US'", "'de_DE'", "'fr_FR'", "'de_CH'", "'en_IN'", "'sv_SE'", "'nope'", "NULL"]

# Years with a week and a day of it, and their formats for STR_TO_DATE.
WEEKS = ["'2024 09 Thursday'", "'2004 42 Mon'", "'1999 53 0'", "'2024-02-29 Thursday'", "'200442'", "'x 2024 1 6'"]
WEEK_FORMATS = ["'%X %V %W'", "'%x %v %W'", "'%Y %U %a'", "'%Y %u %W'", "'%X %V %w'", "'%Y-%m-%d %W'", "'%X%V'", "'%@ %x %v %w'", "'%x %V %W'"]

# Functions: text with places, and what stands there.
FUNCTIONS = [
    (NUMBER, "ABS({})", NUMBER), (NUMBER, "CEIL({})", NUMBER), (NUMBER, "FLOOR({})", NUMBER), (NUMBER, "ROUND({})", NUMBER),
    (NUMBER, "ROUND({},{})", NUMBER, SMALL), (NUMBER, "TRUNCATE({},{})", NUMBER, SMALL), (NUMBER, "SIGN({})", NUMBER),
    (NUMBER, "SQRT({})", NUMBER), (NUMBER, "POW({},{})", NUMBER, SMALL), (NUMBER, "EXP({})", SMALL), (NUMBER, "LN({})", NUMBER),
    (NUMBER, "LOG({})", NUMBER), (NUMBER, "LOG({},{})", NUMBER, NUMBER), (NUMBER, "LOG2({})", NUMBER), (NUMBER, "LOG10({})", NUMBER),
    (NUMBER, "SIN({})", SMALL), (NUMBER, "COS({})", SMALL), (NUMBER, "ATAN({})", NUMBER), (NUMBER, "ATAN({},{})", SMALL, SMALL),
    (NUMBER, "ATAN2({},{})", SMALL, SMALL), (NUMBER, "ASIN({})", NUMBER), (NUMBER, "ACOS({})", NUMBER), (NUMBER, "COT({})", NUMBER),
    (NUMBER, "MOD({},{})", NUMBER, NUMBER), (NUMBER, "DEGREES({})", NUMBER), (NUMBER, "RADIANS({})", NUMBER),
    (NUMBER, "CRC32({})", TEXT), (NUMBER, "BIT_COUNT({})", NUMBER), (NUMBER, "({} + {})", NUMBER, NUMBER),
    (NUMBER, "({} - {})", NUMBER, NUMBER), (NUMBER, "({} * {})", NUMBER, NUMBER), (NUMBER, "({} / {})", NUMBER, NUMBER),
    (NUMBER, "({} DIV {})", NUMBER, NUMBER), (NUMBER, "({} % {})", NUMBER, NUMBER), (NUMBER, "({} & {})", NUMBER, NUMBER),
    (NUMBER, "({} | {})", NUMBER, NUMBER), (NUMBER, "({} ^ {})", NUMBER, NUMBER), (NUMBER, "({} << {})", NUMBER, SMALL),
    (NUMBER, "({} >> {})", NUMBER, SMALL), (NUMBER, "~({})", NUMBER), (NUMBER, "-({})", NUMBER),
    (NUMBER, "LENGTH({})", ANY), (NUMBER, "CHAR_LENGTH({})", ANY), (NUMBER, "BIT_LENGTH({})", TEXT), (TEXT, "UPPER({})", TEXT),
    (TEXT, "LOWER({})", TEXT), (TEXT, "CONCAT({},{})", ANY, ANY), (TEXT, "CONCAT({})", ANY), (TEXT, "CONCAT_WS({},{},{})", TEXT, ANY, ANY),
    (TEXT, "SUBSTRING({},{})", TEXT, SMALL), (TEXT, "SUBSTRING({},{},{})", TEXT, SMALL, SMALL), (TEXT, "MID({},{},{})", TEXT, SMALL, SMALL),
    (TEXT, "LEFT({},{})", TEXT, SMALL), (TEXT, "RIGHT({},{})", TEXT, SMALL), (TEXT, "SUBSTRING_INDEX({},{},{})", TEXT, TEXT, SMALL),
    (TEXT, "TRIM({})", TEXT), (TEXT, "TRIM(LEADING {} FROM {})", TEXT, TEXT), (TEXT, "TRIM(TRAILING {} FROM {})", TEXT, TEXT),
    (TEXT, "TRIM(BOTH {} FROM {})", TEXT, TEXT), (TEXT, "LTRIM({})", TEXT), (TEXT, "RTRIM({})", TEXT), (TEXT, "REPLACE({},{},{})", TEXT, TEXT, TEXT),
    (TEXT, "REVERSE({})", TEXT), (TEXT, "REPEAT({},{})", TEXT, SMALL), (TEXT, "SPACE({})", SMALL), (TEXT, "LPAD({},{},{})", TEXT, SMALL, TEXT),
    (TEXT, "RPAD({},{},{})", TEXT, SMALL, TEXT), (NUMBER, "INSTR({},{})", TEXT, TEXT), (NUMBER, "LOCATE({},{})", TEXT, TEXT),
    (NUMBER, "LOCATE({},{},{})", TEXT, TEXT, SMALL), (NUMBER, "POSITION({} IN {})", TEXT, TEXT), (NUMBER, "STRCMP({},{})", TEXT, TEXT),
    (NUMBER, "ASCII({})", TEXT), (NUMBER, "ORD({})", TEXT), (TEXT, "HEX({})", ANY), (TEXT, "UNHEX({})", TEXT), (TEXT, "BIN({})", NUMBER),
    (TEXT, "OCT({})", NUMBER), (TEXT, "CONV({},{},{})", TEXT, ["16"], ["10"]), (TEXT, "CONV({},{},{})", NUMBER, ["10"], ["16"]),
    (TEXT, "CONV({},{},{})", NUMBER, ["10"], ["-2"]), (TEXT, "FORMAT({},{})", NUMBER, SMALL), (NUMBER, "FIELD({},{},{})", ANY, ANY, ANY),
    (TEXT, "ELT({},{},{})", SMALL, TEXT, TEXT), (NUMBER, "FIND_IN_SET({},{})", TEXT, TEXT), (TEXT, "INSERT({},{},{},{})", TEXT, SMALL, SMALL, TEXT),
    (TEXT, "QUOTE({})", TEXT), (TEXT, "MD5({})", TEXT), (TEXT, "SHA1({})", TEXT), (TEXT, "SHA2({},{})", TEXT, ["256"]), (TEXT, "TO_BASE64({})", TEXT),
    (TEXT, "FROM_BASE64({})", TEXT), (TEXT, "CHAR({})", SMALL), (TEXT, "SOUNDEX({})", TEXT), (TEXT, "EXPORT_SET({},{},{},{},{})", SMALL, TEXT, TEXT, ["','"], ["5"]),
    (TEXT, "MAKE_SET({},{},{})", SMALL, TEXT, TEXT), (NUMBER, "INET_ATON({})", TEXT), (TEXT, "INET_NTOA({})", NUMBER),
    (TIME, "DATE({})", TIME), (TIME, "TIME({})", TIME), (TIME, "TIMESTAMP({})", TIME), (TIME, "TIMESTAMP({},{})", TIME, TIME), (NUMBER, "YEAR({})", TIME),
    (NUMBER, "MONTH({})", TIME), (NUMBER, "DAY({})", TIME), (NUMBER, "HOUR({})", TIME), (NUMBER, "MINUTE({})", TIME), (NUMBER, "SECOND({})", TIME),
    (NUMBER, "MICROSECOND({})", TIME), (NUMBER, "QUARTER({})", TIME), (NUMBER, "DAYOFWEEK({})", TIME), (NUMBER, "WEEKDAY({})", TIME),
    (NUMBER, "DAYOFYEAR({})", TIME), (NUMBER, "WEEK({})", TIME), (NUMBER, "WEEK({},{})", TIME, "0 1 2 3 4 5 6 7".split()), (NUMBER, "YEARWEEK({})", TIME),
    (NUMBER, "YEARWEEK({},{})", TIME, "0 1 2 3 4 5 6 7".split()), (NUMBER, "WEEKOFYEAR({})", TIME), (TIME, "LAST_DAY({})", TIME), (TEXT, "DAYNAME({})", TIME),
    (TEXT, "MONTHNAME({})", TIME), (NUMBER, "DATEDIFF({},{})", TIME, TIME), (TIME, "TIMEDIFF({},{})", ["TIME'12:34:56'", "'-01:00:00'", "TIME'00:00:00.25'"], ["TIME'12:34:56'", "'10:00:00'", "NULL"]), (NUMBER, "TO_DAYS({})", TIME),
    (TIME, "FROM_DAYS({})", NUMBER), (NUMBER, "TO_SECONDS({})", TIME),
    (TEXT, "DATE_FORMAT({},{})", TIME, ["'%Y-%m-%d_%H:%i:%s.%f'", "'%a_%b_%c_%D_%e_%j_%k_%l_%M_%p_%r_%T_%U_%u_%V_%v_%W_%w_%X_%x_%y_%%_%q'"]),
    (TEXT, "TIME_FORMAT({},{})", TIME, ["'%H|%k|%h|%i|%s|%f'", "'%p_%r_%T'"]), (NUMBER, "TIME_TO_SEC({})", TIME), (TIME, "SEC_TO_TIME({})", NUMBER),
    (NUMBER, "TIMESTAMPDIFF({},{},{})", "SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR MICROSECOND".split(), TIME, TIME),
    (TIME, "TIMESTAMPADD({},{},{})", "SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR SQL_TSI_DAY SQL_TSI_SECOND SQL_TSI_MONTH sql_tsi_hour".split(), SMALL, TIME),
    (NUMBER, "TIMESTAMPDIFF({},{},{})", "SQL_TSI_SECOND SQL_TSI_DAY sql_tsi_week SQL_TSI_YEAR".split(), TIME, TIME),
    (TIME, "MAKEDATE({},{})", "2024 2023 99 0 9999".split(), SMALL), (TIME, "MAKETIME({},{},{})", SMALL, SMALL, SMALL),
    (TIME, "STR_TO_DATE({},{})", ["'2024-02-29'", "'29/02/2024'", "'Feb 29 2024'", "'12:34:56'", "'2024-02-29 12:34:56.5'", "'x'"], ["'%Y-%m-%d'", "'%d/%m/%Y'", "'%b %d %Y'", "'%H:%i:%s'", "'%Y-%m-%d %H:%i:%s.%f'"]),
    (TIME, "STR_TO_DATE({},{})", WEEKS, WEEK_FORMATS),
    (TIME, "STR_TO_DATE(CONCAT_WS(' ',{},{},{}),{})", "2024 2004 1999 99 7".split(), "0 1 9 42 52 53 54".split(), ["'Monday'", "'Sunday'", "'sat'", "'0'", "'6'"], WEEK_FORMATS),
    (TIME, "DATE_ADD({}, INTERVAL {} {})", TIME, SMALL, "SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR MICROSECOND".split()),
    (TIME, "DATE_SUB({}, INTERVAL {} {})", TIME, ["'1:2'", "'-1:30'", "'1 2'", "1.5", "'x'"], "MINUTE_SECOND HOUR_MINUTE DAY_HOUR YEAR_MONTH DAY_SECOND DAY_MICROSECOND SECOND_MICROSECOND".split()),
    (TIME, "({} + INTERVAL {} {})", TIME, SMALL, "SECOND DAY MONTH YEAR".split()), (NUMBER, "EXTRACT({} FROM {})", "YEAR MONTH DAY HOUR MINUTE SECOND MICROSECOND QUARTER WEEK YEAR_MONTH DAY_HOUR DAY_SECOND HOUR_MINUTE MINUTE_SECOND".split(), TIME),
    (TIME, "ADDTIME({},{})", TIME, ["'01:00:00'", "'-00:30:00.5'", "'1 1:1:1'"]), (TIME, "SUBTIME({},{})", TIME, ["'01:00:00'", "'-00:30:00.5'", "'1 1:1:1'"]),
    (NUMBER, "PERIOD_ADD({},{})", "202402 9912 199912".split(), SMALL), (NUMBER, "PERIOD_DIFF({},{})", "202402 9912".split(), "202301 200001".split()),
    (NUMBER, "UNIX_TIMESTAMP({})", TIME), (TIME, "FROM_UNIXTIME({})", NUMBER), (TEXT, "FROM_UNIXTIME({},{})", SMALL, ["'%Y %j'"]),
    (ANY, "IF({},{},{})", ANY, ANY, ANY), (ANY, "IFNULL({},{})", ANY, ANY), (ANY, "NULLIF({},{})", ANY, ANY), (ANY, "COALESCE({},{},{})", ANY, ANY, ANY),
    (ANY, "CASE WHEN {} THEN {} ELSE {} END", ANY, ANY, ANY), (ANY, "CASE {} WHEN {} THEN {} WHEN {} THEN {} END", ANY, ANY, ANY, ANY, ANY),
    (NUMBER, "GREATEST({},{})", NUMBER, NUMBER), (TEXT, "LEAST({},{},{})", TEXT, TEXT, TEXT),
    (NUMBER, "ISNULL({})", ANY), (NUMBER, "INTERVAL({},{},{})", NUMBER, SMALL, NUMBER),
    (NUMBER, "CAST({} AS SIGNED)", ANY), (NUMBER, "CAST({} AS UNSIGNED)", ANY), (TEXT, "CAST({} AS CHAR)", ANY), (TEXT, "CAST({} AS CHAR(3))", ANY),
    (TEXT, "CAST({} AS BINARY)", ANY), (TEXT, "CAST({} AS BINARY(3))", ANY), (NUMBER, "CAST({} AS DECIMAL(10,2))", ANY), (NUMBER, "CAST({} AS DECIMAL)", ANY),
    (NUMBER, "CAST({} AS DOUBLE)", ANY), (TIME, "CAST({} AS DATE)", TIME), (TIME, "CAST({} AS DATETIME)", TIME), (TIME, "CAST({} AS DATETIME(3))", TIME),
    (TIME, "CAST({} AS TIME)", TIME), (TIME, "CAST({} AS TIME(2))", TIME), (TEXT, "CONVERT({} USING utf8mb4)", TEXT),
    (TEXT, "CONVERT({} USING {})", TEXT, "ascii utf8mb3 latin1 utf16".split()), (TEXT, "HEX(CONVERT({} USING {}))", TEXT, CHARSETS),
    (NUMBER, "LENGTH(CONVERT({} USING {}))", TEXT, CHARSETS), (TEXT, "CONVERT(CONVERT({} USING {}) USING utf8mb4)", TEXT, CHARSETS),
    (TEXT, "CONVERT(CAST(CONVERT({} USING {}) AS BINARY) USING latin1)", TEXT, CHARSETS), (TEXT, "MD5({})", INTRODUCED),
    (TEXT, "HEX({})", INTRODUCED), (NUMBER, "LENGTH({})", INTRODUCED), (NUMBER, "CHAR_LENGTH({})", INTRODUCED), (TEXT, "CONVERT({} USING {})", INTRODUCED, ["utf8mb4"]),
    (TEXT, "JSON_ARRAY({},{})", ["TRUE", "1", "NULL", "(1 > 2)", "NOT 3"], ["FALSE", "JSON_ARRAY(1 IS NULL)", "'a'", "1 IN (2)"]), (TEXT, "FORMAT({},{},{})", NUMBER, SMALL, LOCALES),
]

# Texts of numbers that doubles cannot tell apart, beside exact numbers.
EXACT = ["'9007199254740992.000001'", "'9007199254740993'", "' 9007199254740992'", "'-9007199254740992.000001'", "'1.50'",
         "'9.007199254740992000001e15'", "'9223372036854775807'", "'1e400'"]

# MariaDB compares a column of rows in a list by one type, and decimals in a list with texts as doubles: items are of one kind.
WHOLE = ["0", "1", "2", "-1", "3", "7", "12", "255", "1.5", "1.50", "-2", "99999", "9007199254740992.000001", "NULL"]
WORDS = ["''", "'a'", "'A'", "'b '", "'12'", "'é'", "'É'", "'abcde'", "'ß'", "'blob'"]

LONG = ",".join(["{}"] * 11)
PAIRS = ", ".join(["({}, {})"] * 9)

CONDITIONS = [
    *((f"({{}} {op} {{}})", "exact", EXACT) for op in ("=", "<>", "<", ">=", "<=>")), ("({} = {})", EXACT, "exact"),
    *((f"({{}} {no}IN ({LONG}))", "exact", *[WHOLE] * 11) for no in ("", "NOT ")), (f"({{}} IN ({LONG}, NULL))", "word", *[WORDS] * 11),
    *((f"(({{}}, {{}}) {no}IN ({PAIRS}))", "exact", "word", *[WHOLE, WORDS] * 9) for no in ("", "NOT ")),
    ("({} = {})", ANY, ANY), ("({} <=> {})", ANY, ANY), ("({} <> {})", ANY, ANY), ("({} < {})", ANY, ANY), ("({} >= {})", ANY, ANY),
    ("({} BETWEEN {} AND {})", ANY, ANY, ANY), ("({} NOT BETWEEN {} AND {})", ANY, ANY, ANY), ("({} IN ({},{}))", ANY, ANY, ANY),
    ("({} NOT IN ({},{},NULL))", ANY, ANY, ANY), ("({} IS NULL)", ANY), ("({} IS NOT NULL)", ANY), ("({} IS TRUE)", ANY),
    ("({} IS NOT FALSE)", ANY), ("({} LIKE {})", TEXT, ["'a%'", "'%'", "'_'", "''", "'A'", "'%2%'", "'a\\\\%'", "'Gr%E'"]), ("({} NOT LIKE {})", TEXT, ["'a%'", "'_b'"]),
    ("({} AND {})", ANY, ANY), ("({} OR {})", ANY, ANY), ("({} XOR {})", ANY, ANY), ("(NOT {})", ANY),
    ("({} REGEXP {})", TEXT, ["'^a'", "'[0-9]+'", "'a|b'", "'^$'"]), ("(({}, {}) = ({}, {}))", NUMBER, TEXT, NUMBER, TEXT),
]


class Expressions:
    """Expressions over the columns it is given: pairs of a name and a type."""

    def __init__(self, rng, columns=()):
        self.rng = rng
        self.columns = list(columns)

    def leaf(self, kind):
        rng = self.rng
        if kind in (NUMBER, TEXT, TIME, ANY) and self.columns and rng.random() < 0.6:
            fits = [name for name, ty in self.columns if kind == ANY or kind_of(ty) == kind]
            if fits:
                return Node(rng.choice(fits))
        if rng.random() < 0.06:
            return Node("NULL")
        if kind == ANY:
            kind = rng.choice([NUMBER, TEXT, TIME, "bytes", NUMBER, TEXT])
        elif kind in (NUMBER, TEXT) and rng.random() < 0.1:
            kind = rng.choice([NUMBER, TEXT, "bytes"])
        return Node(rng.choice(LITERALS[kind]).replace("{", "{{"))

    def choice(self, kind, depth):
        """What stands in a place of a function."""
        if kind == "exact":
            # An exact number that is not constant: beside it MySQL compares a constant text exactly.
            exact = [name for name, ty in self.columns if ty.split("(")[0] in ("DECIMAL", "BIGINT", "INT")]
            return Node(self.rng.choice(exact)) if exact else self.leaf(NUMBER)
        if kind == "word":
            words = [name for name, ty in self.columns if ty.split("(")[0].split(" ")[0] in ("CHAR", "VARCHAR", "TEXT")]
            return Node(self.rng.choice(words)) if words else Node("'a'")
        if isinstance(kind, str):
            return self.any(kind, depth)
        return Node(self.rng.choice(kind))

    def any(self, kind=ANY, depth=2):
        rng = self.rng
        if depth <= 0 or kind == SMALL or rng.random() < 0.25:
            return self.leaf(kind)
        if kind == ANY and rng.random() < 0.3:
            return self.condition(depth - 1)
        fits = [f for f in FUNCTIONS if kind == ANY or f[0] in (kind, ANY)]
        _, text, *places = rng.choice(fits)
        return Node(text, *(self.choice(place, depth - 1) for place in places))

    def condition(self, depth=2):
        text, *places = self.rng.choice(CONDITIONS)
        if ANY in places:
            # What is compared is mostly of one kind; dates with numbers are left out, for MariaDB converts them otherwise.
            kinds = self.rng.choice([[NUMBER], [TEXT], [TIME], [NUMBER, TEXT]])
            places = [self.rng.choice(kinds) if place == ANY else place for place in places]
        return Node(text, *(self.choice(place, depth - 1) for place in places))


def kind_of(ty):
    base = ty.split("(")[0].split(" ")[0]
    if base in ("DATE", "TIME", "DATETIME", "TIMESTAMP"):
        return TIME
    if base in ("CHAR", "VARCHAR", "TEXT", "BINARY", "VARBINARY", "BLOB", "ENUM", "SET"):
        return TEXT
    return NUMBER
