//! The closed list of what can be wrong with a document.
//!
//! Codes are stable: programs match on them. `docs/documents.md` holds the same table, and a test
//! compares the two.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($variant:ident $name:literal $meaning:literal $fix:literal)*) => {
        /// Why a document is refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            /// What it means, in one line.
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$variant => $meaning,)* }
            }

            /// What to do about it, where the reason does not say it better.
            pub const fn fix(self) -> &'static str {
                match self { $(Code::$variant => $fix,)* }
            }
        }
    };
}

codes! {
    // The file.
    TooLarge "TOO_LARGE"
        "the file is larger than such a document may be"
        "say less, and pass data as an input file"
    NotUtf8 "NOT_UTF8"
        "the file is not UTF-8 text"
        "save it as UTF-8"
    ByteOrderMark "BYTE_ORDER_MARK"
        "the file begins with a byte order mark"
        "save it as UTF-8 without a byte order mark"
    CarriageReturn "CARRIAGE_RETURN"
        "a line ends as on Windows, or holds a carriage return"
        "save it with line ends LF, for example with `dos2unix`"
    ControlCharacter "CONTROL_CHARACTER"
        "a control character, tabs among them"
        "remove it; write spaces instead of tabs"
    InvisibleCharacter "INVISIBLE_CHARACTER"
        "a character that a reader would not see, or that changes the order in which text is shown"
        "remove it; a plain space or hyphen does in most cases"

    // Front matter as such.
    FrontMatterMissing "FRONT_MATTER_MISSING"
        "the file does not begin with a line `---`, or no second such line ends the front matter"
        "begin the file with `---`, the keys, and `---` again, each alone in its line"
    FrontMatterSyntax "FRONT_MATTER_SYNTAX"
        "a line of the front matter is in none of the forms that the schema shows"
        "write `key: value`, or `key:` with list items `- value` below it; put text in double quotes"
    YamlFeature "YAML_FEATURE"
        "something of YAML that the schema does not use: anchors, tags, flow or block collections, single quotes, directives"
        "write it in the block form of the schema, with plain or double-quoted values"
    ExtraDocument "EXTRA_DOCUMENT"
        "a further line `---` after the front matter"
        "remove it: a document has exactly one front matter"
    DuplicateKey "DUPLICATE_KEY"
        "a key stands twice"
        "keep one of them"
    UnknownKey "UNKNOWN_KEY"
        "a key that the schema does not have"
        "remove it, or correct its spelling"
    MissingKey "MISSING_KEY"
        "a key of the schema is missing"
        "add it"
    WrongType "WRONG_TYPE"
        "the value is of another type than the schema says"
        "write numbers without quotes, and text that looks like a number in double quotes"
    EmptyValue "EMPTY_VALUE"
        "a value is empty"
        "fill it in"
    Placeholder "PLACEHOLDER"
        "the schema's own example stands where a value belongs"
        "replace it by one real value"
    UnknownValue "UNKNOWN_VALUE"
        "the value is none of those that the schema allows"
        "use one of the values named"
    TextTooLong "TEXT_TOO_LONG"
        "a text is longer than it may be"
        "shorten it"
    TooManyEntries "TOO_MANY_ENTRIES"
        "a list has more entries than it may have"
        "split the work, or pack files into one"
    DuplicateEntry "DUPLICATE_ENTRY"
        "the same name stands twice in a list, or two names differ only in case"
        "keep one of them, or rename the other"

    // What the values say.
    SchemaVersion "SCHEMA_VERSION"
        "the version of the schema is not known here"
        "write `schema_version: 1`"
    IdInvalid "ID_INVALID"
        "the id is not in the form that the schema shows"
        "write TR-YYYYMMDD-HHMMSSZ-slug with a real time and a slug of lower-case letters, digits and hyphens"
    FileName "FILE_NAME"
        "the file is not named after the id"
        "rename the file to the id followed by `.md`"
    TimeInvalid "TIME_INVALID"
        "not a real moment in the form YYYY-MM-DDTHH:MM:SSZ"
        "write it like 2026-02-09T16:05:01Z, in UTC and to the second"
    TimeInconsistent "TIME_INCONSISTENT"
        "times contradict each other"
        "the time in the id is that of creation, and nothing happens before it"
    TimeInFuture "TIME_IN_FUTURE"
        "a time lies in the future"
        "correct it, or the clock of the machine that wrote it"
    NotApproved "NOT_APPROVED"
        "nobody has approved the request"
        "let a person approve it with `request approve`"
    ApproverInvalid "APPROVER_INVALID"
        "whoever is named as approver cannot be one"
        "a person approves, under their own name; no agent, service or author of drafts"
    ShellForbidden "SHELL_FORBIDDEN"
        "a shell, in whatever disguise"
        "write the steps as a program in python, node, ts, go or ruby, and declare it as an input"
    LimitInvalid "LIMIT_INVALID"
        "a limit that no request may have"
        "write a whole number above zero"
    LimitAboveCeiling "LIMIT_ABOVE_CEILING"
        "a limit is higher than this host allows"
        "ask for less, or have the operator raise the ceiling"
    NetworkInconsistent "NETWORK_INCONSISTENT"
        "network, its allowlist and its rationale contradict each other"
        "with `none` the list is empty and the rationale `none`; with `allowlist` there are hosts and a reason"
    HostInvalid "HOST_INVALID"
        "not the exact name of a public host"
        "write a full name in lower case such as api.example.org or api.example.org:8443; no wildcard, address or private name"
    InputNameInvalid "INPUT_NAME_INVALID"
        "not the name of an input file"
        "one name of letters, digits, `.`, `_` and `-`, not beginning with `.` or `-`"
    HashMissing "HASH_MISSING"
        "an input has no SHA-256"
        "add `sha256:` with what `sha256sum` says of the file"
    HashInvalid "HASH_INVALID"
        "not a SHA-256 in 64 lower-case hexadecimal digits"
        "write what `sha256sum` says of the file"
    OutputPathInvalid "OUTPUT_PATH_INVALID"
        "not the path of a file below /out"
        "write names of letters, digits, `.`, `_` and `-` with `/` between them, such as plots/year.png"

    // Sections.
    SectionMissing "SECTION_MISSING"
        "a section is missing"
        "add its heading, exactly as the schema writes it"
    SectionDuplicate "SECTION_DUPLICATE"
        "a section stands twice"
        "keep one of them"
    SectionOrder "SECTION_ORDER"
        "the sections stand in another order than the schema's"
        "put them in the order of the schema"
    SectionUnknown "SECTION_UNKNOWN"
        "a heading that the schema does not have"
        "remove it, or write it exactly as the schema does: `## ` and the name"
    TextOutsideSections "TEXT_OUTSIDE_SECTIONS"
        "text between the front matter and the first section"
        "move it into a section, or remove it"
    MarkdownForbidden "MARKDOWN_FORBIDDEN"
        "Markdown that hides or reshapes text: code blocks, HTML, link definitions, quotes, rules"
        "write plain lines in the forms of the section"
    LineUnknown "LINE_UNKNOWN"
        "a line is in none of the forms of its section"
        "write it in one of the forms of the section; indent what continues a line by two spaces"
    LineMissing "LINE_MISSING"
        "a line that the section must have is missing"
        "add it"
    LineDuplicate "LINE_DUPLICATE"
        "a line stands twice"
        "keep one of them"
    InputsDiffer "INPUTS_DIFFER"
        "the section Input Files and `inputs` do not list the same files with the same hashes"
        "list each input in both, with the same name and hash"
    OutputsDiffer "OUTPUTS_DIFFER"
        "the section Output Expectations and `outputs_expected` do not list the same files"
        "list each output in both"
    RiskInconsistent "RISK_INCONSISTENT"
        "the risk is said to be low although the network is used or the data are confidential"
        "say `medium` or `high`, and why"

    // The command.
    CommandMissing "COMMAND_MISSING"
        "there is no command"
        "write one command line below `## Command`"
    CommandLines "COMMAND_LINES"
        "more than one line of command"
        "one command, in one line"
    CommandTooLong "COMMAND_TOO_LONG"
        "the command has too many characters or words"
        "move arguments into an input file"
    CommandSyntax "COMMAND_SYNTAX"
        "the command holds something that the grammar of commands does not have"
        "put arguments with unusual characters in single quotes"
    CommandChaining "COMMAND_CHAINING"
        "several commands: `;`, `&&`, `||`"
        "one request runs one command; write the steps into the program"
    CommandBackground "COMMAND_BACKGROUND"
        "a command sent to the background with `&`"
        "remove it; quote the character if it is data"
    CommandPipe "COMMAND_PIPE"
        "a pipeline"
        "let the program do it; quote the character if it is data"
    CommandRedirection "COMMAND_REDIRECTION"
        "a redirection or heredoc"
        "let the program read /in and write /out; quote the character if it is data"
    CommandSubstitution "COMMAND_SUBSTITUTION"
        "a command inside the command"
        "write the value itself, and the command without backticks around it; use single quotes if the characters are data"
    CommandVariable "COMMAND_VARIABLE"
        "a variable, or one set before the command"
        "write the value itself; use single quotes if the characters are data"
    CommandGlob "COMMAND_GLOB"
        "a pattern that a shell would expand: `*`, `?`, `[`, `{`, `~`"
        "name the files; quote the characters if they are data"
    CommandComment "COMMAND_COMMENT"
        "a comment in the command"
        "remove it; quote the `#` if it is data"
    CommandWrapper "COMMAND_WRAPPER"
        "a program that runs another one"
        "begin with the interpreter itself; limits stand in the front matter"
    CommandLanguage "COMMAND_LANGUAGE"
        "the command is not run by the interpreter of the declared language"
        "begin with python or python3, node, go run, or ruby, as the language says"
    CommandInlineCode "COMMAND_INLINE_CODE"
        "code in the command itself or from standard input"
        "put the code into a file and declare it as an input"
    CommandOption "COMMAND_OPTION"
        "an option of the interpreter that is not on the list of harmless ones"
        "remove it; options of your program come after its name"
    CommandProgram "COMMAND_PROGRAM"
        "the command names no program file"
        "name the program after the interpreter: python script.py"
    UndeclaredFile "UNDECLARED_FILE"
        "the command names a file that is neither a declared input nor a declared output"
        "declare it in `inputs` or `outputs_expected`, and write it as /in/NAME or /out/PATH"
    HostPath "HOST_PATH"
        "a path outside of /in and /out"
        "use /in for what is read and /out for what is written"
    Device "DEVICE"
        "a device or a privilege"
        "remove it: there are no devices in the sandbox"

    // Results.
    BackendInvalid "BACKEND_INVALID"
        "the backend is not a name"
        "write the name of what really ran the command: letters, digits, `.`, `_` and `-`"
    ExitCodeInvalid "EXIT_CODE_INVALID"
        "the exit code is not one that a program can have"
        "write a whole number from 0 to 255; 128 and the number of the signal for a program that was killed"
    RuntimeInvalid "RUNTIME_INVALID"
        "the runtime is longer than any run may take"
        "write seconds, such as 3.4"
    SuccessInconsistent "SUCCESS_INCONSISTENT"
        "the summary and the exit code do not agree about success"
        "say `yes` with exit code 0 and `no` with any other"
    LineOrder "LINE_ORDER"
        "the lines of a section stand in another order than the schema's"
        "put them in the order of the schema"
    ArtifactsDiffer "ARTIFACTS_DIFFER"
        "the section Outputs and `artifacts` do not list the same files with the same hashes"
        "list each artifact in both, with the same path and hash"
    BackendDiffers "BACKEND_DIFFERS"
        "the provenance names another backend than the front matter"
        "begin the line `Backend:` with the name from the front matter"
    StreamTooLong "STREAM_TOO_LONG"
        "more of stdout or stderr is shown than may be"
        "show at most 200 lines, 64 KiB and 1,000 characters a line, and keep the whole as an artifact"
    StreamDigest "STREAM_DIGEST"
        "what is shown of stdout or stderr does not have the digest that the front matter gives"
        "show the stream as it was, each line behind `| `, or correct the digest"
    TruncationInconsistent "TRUNCATION_INCONSISTENT"
        "the note about a cut stream is wrong, or the whole is not an artifact"
        "count the lines shown, and list stdout.txt or stderr.txt with the digest of the whole stream"
    WithheldInconsistent "WITHHELD_INCONSISTENT"
        "a stream is withheld without its reason, or shown all the same"
        "name the reason under `Unexpected behavior:` as well, and do not list the stream as an artifact"
    StatementWrong "STATEMENT_WRONG"
        "a safety note does not say what it must"
        "write it as the schema does"
    RequestDiffers "REQUEST_DIFFERS"
        "the result answers another request"
        "judge it against the request that it names"
    CommandDiffers "COMMAND_DIFFERS"
        "the command that ran is not the one that was requested"
        "nothing: such a result is not to be trusted"
    LimitsDiffer "LIMITS_DIFFER"
        "the limits applied are not those that were requested"
        "name cpu, memory and time as they stand in the request"
    RuntimeAboveLimit "RUNTIME_ABOVE_LIMIT"
        "the run took longer than its limit"
        "nothing: such a result is not to be trusted"
    ArtifactUndeclared "ARTIFACT_UNDECLARED"
        "an artifact that the request does not expect"
        "declare it in `outputs_expected` of the next request"
    DestinationNotAllowed "DESTINATION_NOT_ALLOWED"
        "a host was reached that the request does not allow"
        "nothing: such a result is not to be trusted"
    JournalDiffers "JOURNAL_DIFFERS"
        "the journal knows it otherwise"
        "nothing: such a result is not to be trusted"

    // Content.
    Secret "SECRET"
        "something that looks like a password, key or token"
        "remove it, and replace the secret: it has been written down"
    InstallInstruction "INSTALL_INSTRUCTION"
        "an instruction to install or download software"
        "remove it: the sandbox has what it has; pass what is missing as an input"

    Payload "PAYLOAD"
        "a program or a script, plain or encoded"
        "withhold the stream, and keep it out of documents"
    PolicyClaim "POLICY_CLAIM"
        "a claim that rules, policies or limits should change or be ignored"
        "withhold the stream; report only that there was one"
    NewInstruction "NEW_INSTRUCTION"
        "an instruction to fetch or execute something, or the marks of a conversation"
        "withhold the stream; report only that there was one"

    // The list itself.
    TooManyReasons "TOO_MANY_REASONS"
        "more is wrong than is listed"
        "correct what is listed and judge again"
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_in_one_style() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            let spelled: String = format!("{code:?}")
                .chars()
                .flat_map(|c| if c.is_uppercase() { vec!['_', c] } else { vec![c] })
                .collect();
            assert_eq!(spelled.trim_start_matches('_').to_uppercase(), code.as_str());
        }
    }
}
