//! The list of scalar functions: their names, arguments and results.

macro_rules! scalars {
    ($($variant:ident $name:literal $min:literal $max:literal $result:ident $takes:literal,)*) => {
        /// A scalar function.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Scalar { $($variant),* }

        impl Scalar {
            /// The function with this name.
            pub(crate) fn find(name: &str) -> Option<Scalar> {
                match name { $($name => Some(Scalar::$variant),)* _ => None }
            }

            /// The function's name in MySQL.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Scalar::$variant => $name),* }
            }

            pub(super) fn arity(self) -> (usize, usize) {
                match self { $(Scalar::$variant => ($min, $max)),* }
            }

            pub(super) fn result(self) -> ResultKind {
                match self { $(Scalar::$variant => ResultKind::$result),* }
            }

            /// How the function uses an argument: as `t`ext, as a `n`umber, as a `m`oment (a date
            /// or a time), or unchanged (`r`). The last letter applies to all further arguments.
            pub(super) fn takes(self, at: usize) -> u8 {
                let letters: &[u8] = match self { $(Scalar::$variant => $takes),* };
                letters.get(at).or(letters.last()).copied().unwrap_or(b'r')
            }
        }
    };
}

/// The kind of a function's result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultKind {
    Int,
    UInt,
    Double,
    Text,
    /// Text, or bytes if an argument is bytes.
    Like,
    Bytes,
    Date,
    Time,
    DateTime,
    /// The type depends on the arguments.
    Own,
}

scalars! {
    Abs "abs" 1 1 Own b"n",
    Ceil "ceil" 1 1 Own b"n",
    Ceiling "ceiling" 1 1 Own b"n",
    Floor "floor" 1 1 Own b"n",
    Round "round" 1 2 Own b"n",
    Truncate "truncate" 2 2 Own b"n",
    Sign "sign" 1 1 Int b"n",
    Sqrt "sqrt" 1 1 Double b"n",
    Pow "pow" 2 2 Double b"n",
    Power "power" 2 2 Double b"n",
    Exp "exp" 1 1 Double b"n",
    Ln "ln" 1 1 Double b"n",
    Log "log" 1 2 Double b"n",
    Log2 "log2" 1 1 Double b"n",
    Log10 "log10" 1 1 Double b"n",
    Sin "sin" 1 1 Double b"n",
    Cos "cos" 1 1 Double b"n",
    Tan "tan" 1 1 Double b"n",
    Cot "cot" 1 1 Double b"n",
    Atan "atan" 1 2 Double b"n",
    Atan2 "atan2" 1 2 Double b"n",
    Asin "asin" 1 1 Double b"n",
    Acos "acos" 1 1 Double b"n",
    Pi "pi" 0 0 Double b"n",
    Rand "rand" 0 1 Double b"n",
    Degrees "degrees" 1 1 Double b"n",
    Radians "radians" 1 1 Double b"n",
    Crc32 "crc32" 1 1 UInt b"t",
    BitCount "bit_count" 1 1 Int b"n",
    Interval "interval" 2 999 Int b"n",
    Greatest "greatest" 2 999 Own b"r",
    Least "least" 2 999 Own b"r",
    Length "length" 1 1 Int b"t",
    OctetLength "octet_length" 1 1 Int b"t",
    CharLength "char_length" 1 1 Int b"t",
    CharacterLength "character_length" 1 1 Int b"t",
    BitLength "bit_length" 1 1 Int b"t",
    Upper "upper" 1 1 Like b"t",
    Ucase "ucase" 1 1 Like b"t",
    Lower "lower" 1 1 Like b"t",
    Lcase "lcase" 1 1 Like b"t",
    Concat "concat" 1 999 Like b"t",
    ConcatWs "concat_ws" 2 999 Like b"t",
    Substring "substring" 2 3 Like b"tn",
    Substr "substr" 2 3 Like b"tn",
    Mid "mid" 3 3 Like b"tn",
    Left "left" 2 2 Like b"tn",
    Right "right" 2 2 Like b"tn",
    SubstringIndex "substring_index" 3 3 Like b"ttn",
    Trim "trim" 1 1 Like b"t",
    TrimBoth "trim both" 2 2 Like b"t",
    TrimLead "trim leading" 2 2 Like b"t",
    TrimTrail "trim trailing" 2 2 Like b"t",
    Ltrim "ltrim" 1 1 Like b"t",
    Rtrim "rtrim" 1 1 Like b"t",
    Replace "replace" 3 3 Like b"t",
    Reverse "reverse" 1 1 Like b"t",
    Repeat "repeat" 2 2 Like b"tn",
    Space "space" 1 1 Text b"n",
    Lpad "lpad" 3 3 Like b"tnt",
    Rpad "rpad" 3 3 Like b"tnt",
    Instr "instr" 2 2 Int b"t",
    Locate "locate" 2 3 Int b"ttn",
    Position "position" 2 2 Int b"t",
    Strcmp "strcmp" 2 2 Int b"t",
    Ascii "ascii" 1 1 Int b"t",
    Ord "ord" 1 1 Int b"t",
    Char "char" 1 999 Bytes b"n",
    Hex "hex" 1 1 Text b"r",
    Unhex "unhex" 1 1 Bytes b"t",
    Bin "bin" 1 1 Text b"t",
    Oct "oct" 1 1 Text b"t",
    Conv "conv" 3 3 Text b"tnn",
    Format "format" 2 3 Text b"nnt",
    Field "field" 2 999 Int b"r",
    Elt "elt" 2 999 Like b"nt",
    FindInSet "find_in_set" 2 2 Int b"t",
    Insert "insert" 4 4 Like b"tnnt",
    Quote "quote" 1 1 Like b"t",
    Md5 "md5" 1 1 Text b"t",
    Sha "sha" 1 1 Text b"t",
    Sha1 "sha1" 1 1 Text b"t",
    Sha2 "sha2" 2 2 Text b"tn",
    Uuid "uuid" 0 0 Text b"t",
    ToBase64 "to_base64" 1 1 Text b"t",
    FromBase64 "from_base64" 1 1 Bytes b"t",
    Soundex "soundex" 1 1 Like b"t",
    ExportSet "export_set" 3 5 Like b"ntttn",
    MakeSet "make_set" 2 999 Like b"nt",
    RegexpLike "regexp_like" 2 3 Int b"t",
    RegexpReplace "regexp_replace" 3 3 Text b"t",
    Charset "charset" 1 1 Text b"r",
    CollationOf "collation" 1 1 Text b"r",
    If "if" 3 3 Own b"r",
    Ifnull "ifnull" 2 2 Own b"r",
    Nullif "nullif" 2 2 Own b"r",
    Coalesce "coalesce" 1 999 Own b"r",
    Isnull "isnull" 1 1 Int b"r",
    AnyValue "any_value" 1 1 Own b"r",
    Mod "mod" 2 2 Own b"n",
    Now "now" 0 1 DateTime b"r",
    CurrentTimestamp "current_timestamp" 0 1 DateTime b"r",
    Localtime "localtime" 0 1 DateTime b"r",
    Localtimestamp "localtimestamp" 0 1 DateTime b"r",
    Sysdate "sysdate" 0 1 DateTime b"r",
    UtcTimestamp "utc_timestamp" 0 1 DateTime b"r",
    Curdate "curdate" 0 0 Date b"r",
    CurrentDate "current_date" 0 0 Date b"r",
    UtcDate "utc_date" 0 0 Date b"r",
    Curtime "curtime" 0 1 Time b"r",
    CurrentTime "current_time" 0 1 Time b"r",
    UtcTime "utc_time" 0 1 Time b"r",
    UnixTimestamp "unix_timestamp" 0 1 Own b"m",
    FromUnixtime "from_unixtime" 1 2 Own b"n",
    DateOf "date" 1 1 Date b"m",
    TimeOf "time" 1 1 Time b"m",
    Timestamp "timestamp" 1 2 DateTime b"m",
    Year "year" 1 1 Int b"m",
    Month "month" 1 1 Int b"m",
    Day "day" 1 1 Int b"m",
    Dayofmonth "dayofmonth" 1 1 Int b"m",
    Hour "hour" 1 1 Int b"m",
    Minute "minute" 1 1 Int b"m",
    Second "second" 1 1 Int b"m",
    Microsecond "microsecond" 1 1 Int b"m",
    Quarter "quarter" 1 1 Int b"m",
    Dayofweek "dayofweek" 1 1 Int b"m",
    Weekday "weekday" 1 1 Int b"m",
    Dayofyear "dayofyear" 1 1 Int b"m",
    Week "week" 1 2 Int b"mn",
    Weekofyear "weekofyear" 1 1 Int b"m",
    Yearweek "yearweek" 1 2 Int b"mn",
    LastDay "last_day" 1 1 Date b"m",
    Dayname "dayname" 1 1 Text b"m",
    Monthname "monthname" 1 1 Text b"m",
    Datediff "datediff" 2 2 Int b"m",
    Timediff "timediff" 2 2 Time b"r",
    ToDays "to_days" 1 1 Int b"m",
    ToSeconds "to_seconds" 1 1 Int b"m",
    FromDays "from_days" 1 1 Date b"n",
    DateFormat "date_format" 2 2 Text b"mt",
    TimeFormat "time_format" 2 2 Text b"mt",
    TimeToSec "time_to_sec" 1 1 Int b"m",
    SecToTime "sec_to_time" 1 1 Time b"n",
    Timestampdiff "timestampdiff" 3 3 Int b"m",
    Makedate "makedate" 2 2 Date b"n",
    Maketime "maketime" 3 3 Time b"n",
    StrToDate "str_to_date" 2 2 Own b"t",
    Addtime "addtime" 2 2 Own b"r",
    Subtime "subtime" 2 2 Own b"r",
    MomentNumber "number of a moment" 1 1 Own b"r",
    MomentOf "moment of a text" 1 1 Own b"r",
    MomentToday "moment of a text, of today" 1 1 Own b"r",
    ConvertTz "convert_tz" 3 3 DateTime b"mt",
    PeriodAdd "period_add" 2 2 Int b"n",
    PeriodDiff "period_diff" 2 2 Int b"n",
    Extract "extract" 2 2 Int b"m",
    Database "database" 0 0 Text b"r",
    Schema "schema" 0 0 Text b"r",
    User "user" 0 0 Text b"r",
    CurrentUser "current_user" 0 0 Text b"r",
    SessionUser "session_user" 0 0 Text b"r",
    SystemUser "system_user" 0 0 Text b"r",
    Version "version" 0 0 Text b"r",
    ConnectionId "connection_id" 0 0 UInt b"r",
    LastInsertId "last_insert_id" 0 1 UInt b"n",
    RowCount "row_count" 0 0 Int b"r",
    FoundRows "found_rows" 0 0 UInt b"r",
    Sleep "sleep" 1 1 Int b"n",
    GetLock "get_lock" 2 2 Int b"r",
    ReleaseLock "release_lock" 1 1 Int b"r",
    ReleaseAllLocks "release_all_locks" 0 0 UInt b"r",
    IsFreeLock "is_free_lock" 1 1 Int b"r",
    IsUsedLock "is_used_lock" 1 1 UInt b"r",
    JsonValid "json_valid" 1 1 Int b"r",
    JsonExtract "json_extract" 2 999 Text b"r",
    JsonUnquote "json_unquote" 1 1 Text b"r",
    JsonObject "json_object" 0 999 Text b"r",
    JsonArray "json_array" 0 999 Text b"r",
    Converted "convert using" 2 2 Text b"r",
    Encoded "encoded in" 2 2 Bytes b"r",
    BytesText "text of bytes" 1 1 Text b"r",
    JsonTruth "json truth" 1 1 Text b"r",
    JsonNested "json nested" 1 1 Text b"r",
    JsonValue "json value" 1 1 Text b"r",
    InetAton "inet_aton" 1 1 UInt b"t",
    InetNtoa "inet_ntoa" 1 1 Text b"n",
    Benchmark "benchmark" 2 2 Int b"r",
}

impl Scalar {
    /// Whether the result is text or bytes with the collation of a literal, for any arguments.
    pub(crate) fn makes_literals(self) -> bool {
        match self {
            Scalar::Converted | Scalar::Encoded | Scalar::BytesText | Scalar::RegexpReplace => {
                false
            }
            other => matches!(other.result(), ResultKind::Text | ResultKind::Bytes),
        }
    }

    /// Whether two calls with equal arguments may differ.
    pub(crate) fn is_volatile(self) -> bool {
        matches!(
            self,
            Scalar::Rand
                | Scalar::Uuid
                | Scalar::Sleep
                | Scalar::Sysdate
                | Scalar::LastInsertId
                | Scalar::GetLock
                | Scalar::ReleaseLock
                | Scalar::ReleaseAllLocks
                | Scalar::IsFreeLock
                | Scalar::IsUsedLock
        )
    }
}
