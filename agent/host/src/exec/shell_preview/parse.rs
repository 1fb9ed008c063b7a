//! A line in, its commands, their order and their redirections out; nothing for any word that a shell would expand.

use super::{Output, Step, When};

/// What a line consists of.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `;` or a new line.
    Then,
    And,
    Or,
    /// `>`.
    Replace,
    /// `>>`.
    Append,
    /// `2>`.
    Errors,
}

/// The commands of a line.
pub(super) fn steps(line: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut when = When::Always;
    let mut tokens = tokens(line)?.into_iter().peekable();
    while tokens.peek().is_some() {
        let mut step = Step { when, negated: false, words: Vec::new(), output: Output::Shown };
        let mut next = None;
        while let Some(token) = tokens.next() {
            match token {
                Token::Word(word) if word == "!" && step.words.is_empty() => step.negated = true,
                Token::Word(word) => step.words.push(word),
                Token::Errors => drop_errors(tokens.next()?)?,
                Token::Replace | Token::Append => {
                    let Token::Word(target) = tokens.next()? else { return None };
                    if step.output != Output::Shown {
                        return None;
                    }
                    step.output = match token {
                        _ if target == "/dev/null" => Output::Shown,
                        Token::Append => Output::Appends(target),
                        _ => Output::Replaces(target),
                    };
                }
                end => {
                    next = Some(end);
                    break;
                }
            }
        }
        let is_last = next.is_none();
        when = match next {
            Some(Token::And) => When::AfterSuccess,
            Some(Token::Or) => When::AfterFailure,
            _ => When::Always,
        };
        if step.words.is_empty() {
            return None;
        }
        steps.push(step);
        if is_last {
            break;
        }
        if tokens.peek().is_none() && when != When::Always {
            return None;
        }
    }
    Some(steps)
}

/// Where errors may go without a difference to anybody.
fn drop_errors(target: Token) -> Option<()> {
    matches!(target, Token::Word(word) if word == "/dev/null" || word == "&1").then_some(())
}

fn tokens(line: &str) -> Option<Vec<Token>> {
    let mut all = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => quoted(c, &mut chars, word.get_or_insert_default())?,
            ' ' | '\t' => all.extend(word.take().map(Token::Word)),
            ';' | '\n' => {
                all.extend(word.take().map(Token::Word));
                all.push(Token::Then);
            }
            '&' if chars.next_if_eq(&'&').is_some() => {
                all.extend(word.take().map(Token::Word));
                all.push(Token::And);
            }
            '|' if chars.next_if_eq(&'|').is_some() => {
                all.extend(word.take().map(Token::Word));
                all.push(Token::Or);
            }
            '>' => {
                let errors = word.as_deref() == Some("2");
                match word.take() {
                    Some(digit) if errors || digit == "1" => {}
                    other => all.extend(other.map(Token::Word)),
                }
                if errors && chars.next_if_eq(&'&').is_some() {
                    (chars.next()? == '1').then_some(())?;
                    all.extend([Token::Errors, Token::Word("&1".into())]);
                    continue;
                }
                let appends = chars.next_if_eq(&'>').is_some();
                all.push(match (errors, appends) {
                    (true, _) => Token::Errors,
                    (false, true) => Token::Append,
                    (false, false) => Token::Replace,
                });
            }
            '[' | ']' | '!' | '=' | '+' | '-' | '.' | '/' | '_' | ':' | ',' | '@' | '%' => {
                word.get_or_insert_default().push(c);
            }
            c if c.is_alphanumeric() => word.get_or_insert_default().push(c),
            _ => return None,
        }
    }
    all.extend(word.map(Token::Word));
    // Brackets are plain as words of a test only, elsewhere they are a pattern.
    let is_pattern =
        |token: &Token| matches!(token, Token::Word(w) if w.contains(['[', ']']) && w != "[" && w != "]");
    (!all.iter().any(is_pattern)).then_some(all)
}

/// The text up to the closing quotation mark, where nothing in it means anything to a shell.
fn quoted(mark: char, chars: &mut std::iter::Peekable<std::str::Chars<'_>>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            c if c == mark => return Some(()),
            '$' | '`' | '\\' if mark == '"' => return None,
            // Quoted brackets are no pattern, and no test.
            '[' | ']' => return None,
            c => word.push(c),
        }
    }
}
