//! `cargo xtask public-api`: everything that a program can name in `rustytorch`, one line each, in `docs/public-api.txt`.
//!
//! Read off what rustdoc writes, because macros make many of the items: only rustdoc sees them all on a stable
//! toolchain. `--check` compares and says what changed. Items that no example shows stand in a list that only shrinks.
use crate::{cargo, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const LISTING: &str = "docs/public-api.txt";
const CRATE: &str = "rustytorch";
/// Items without an example, one path a line.
const BARE: &str = "docs/public-api-without-example.txt";
/// Modules that show items of others again.
const AGAIN: [&str; 2] = ["rustytorch::prelude::", "rustytorch::nn::functional::"];
/// What rustdoc marks an example by.
const EXAMPLE: &str = "rust-example-rendered";
/// A sentence in an item's documentation that says so.
const UNSTABLE: &str = "Unstable:";
/// Its methods are the twins of `Tensor`'s, one `try_` each.
const TWINS: &str = "rustytorch::TryTensor";

/// What one item's page, or one of its members, says.
struct Entry {
    line: String,
    path: String,
    has_example: bool,
}

pub(crate) fn run(rest: &[String]) -> Result<(), String> {
    let check = match rest {
        [] => false,
        [word] if word == "--check" => true,
        other => return Err(format!("unknown arguments {other:?}; takes --check")),
    };
    cargo(&["doc", "--quiet", "--no-deps", "--package", CRATE])?;
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root().join("target"), PathBuf::from);
    let entries = entries(&target.join("doc").join(CRATE))?;
    let items = || entries.iter().filter(|e| is_item(e));
    let bare: BTreeSet<String> = items().filter(|e| !e.has_example).map(|e| e.path.clone()).collect();
    let (shown, all) = (items().filter(|e| e.has_example).count(), items().count());
    let lines: BTreeSet<String> = entries.into_iter().map(|e| e.line).collect();
    println!(
        "public api: {} lines; {shown} of {all} items are shown by an example, {} are not",
        lines.len(),
        bare.len()
    );
    let listing = root().join(LISTING);
    let known = fs::read_to_string(root().join(BARE)).unwrap_or_default();
    if check {
        let stored = fs::read_to_string(&listing).map_err(|e| format!("{LISTING}: {e}"))?;
        compare(&stored, &lines)?;
        return compare_bare(&known, &bare);
    }
    let known: BTreeSet<&str> = known.lines().collect();
    let kept = bare.iter().filter(|path| known.is_empty() || known.contains(path.as_str()));
    let text = kept.fold(String::new(), |text, path| text + path + "\n");
    fs::write(root().join(BARE), text).map_err(|e| format!("{BARE}: {e}"))?;
    let head = format!(
        "# The public API of `{CRATE}`, written by `cargo xtask public-api`; CI compares it.\n\
         # stable: stays as it is until a new major version. unstable: its documentation says so.\n\
         # Each method of `Tensor` that is an op has a twin `try_` in `{TWINS}`, not listed again.\n"
    );
    let text = lines.iter().fold(head, |text, line| text + line + "\n");
    fs::write(&listing, text).map_err(|e| format!("{LISTING}: {e}"))
}

/// One message that names what is gone, what is new, and what to do.
fn compare(stored: &str, now: &BTreeSet<String>) -> Result<(), String> {
    let stored: BTreeSet<String> = stored.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect();
    let gone: Vec<&String> = stored.difference(now).collect();
    let new: Vec<&String> = now.difference(&stored).collect();
    if gone.is_empty() && new.is_empty() {
        return Ok(());
    }
    let breaks = gone.iter().filter(|l| l.starts_with("stable")).count();
    let mut message = format!("the public API is not what {LISTING} says: {} gone, {} new", gone.len(), new.len());
    gone.iter().for_each(|l| message += &format!("\n  - {l}"));
    new.iter().for_each(|l| message += &format!("\n  + {l}"));
    if breaks > 0 {
        message += &format!("\n  {breaks} of the lines that are gone were stable: programs that use them break");
    }
    message += "\n  if it is meant, run `cargo xtask public-api` and commit the file";
    Err(message)
}

/// Something to document, at the place where it is at home.
fn is_item(entry: &Entry) -> bool {
    let kind = entry.line.split_whitespace().nth(1).unwrap_or_default();
    !matches!(kind, "impl" | "mod") && !AGAIN.iter().any(|m| entry.path.starts_with(m))
}

/// New items have an example; those that got one leave the list.
fn compare_bare(known: &str, now: &BTreeSet<String>) -> Result<(), String> {
    let known: BTreeSet<String> = known.lines().map(str::to_owned).collect();
    let new: Vec<&String> = now.difference(&known).collect();
    let gone: Vec<&String> = known.difference(now).collect();
    if new.is_empty() && gone.is_empty() {
        return Ok(());
    }
    let mut message = format!("{} public items have no example, {} of {BARE} have one now", new.len(), gone.len());
    new.iter().for_each(|path| message += &format!("\n  {path}: write an example in its documentation"));
    gone.iter()
        .for_each(|path| message += &format!("\n  {path}: run `cargo xtask public-api` and commit the shorter list"));
    Err(message)
}

/// All items under a folder of rustdoc's.
fn entries(folder: &Path) -> Result<Vec<Entry>, String> {
    let mut all = Vec::new();
    let mut pages = Vec::new();
    find_pages(folder, &mut pages)?;
    if pages.is_empty() {
        return Err(format!("{}: rustdoc wrote no pages", folder.display()));
    }
    for page in pages {
        let inside = page.strip_prefix(folder).unwrap_or(&page);
        let modules = inside.parent().unwrap_or(Path::new("")).iter().filter_map(|p| p.to_str());
        let path = std::iter::once(CRATE).chain(modules).collect::<Vec<_>>().join("::");
        let file = inside.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let text = fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
        match file.split('.').collect::<Vec<_>>().as_slice() {
            [kind, name, "html"] => page_entries(kind, &format!("{path}::{name}"), &text, &mut all),
            ["index", "html"] => all.push(entry("mod", &path, "", first_doc(&text), false)),
            _ => {}
        }
    }
    Ok(all)
}

fn find_pages(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<(), String> {
    let listed = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for found in listed {
        let path = found.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        if path.is_dir() {
            find_pages(&path, pages)?;
        } else if path.extension().is_some_and(|e| e == "html") {
            pages.push(path);
        }
    }
    Ok(())
}

/// The documentation of the item that a page is about.
fn first_doc(page: &str) -> &str {
    let from = page.find("class=\"toggle top-doc\"").unwrap_or(page.len());
    let doc = &page[from..];
    &doc[..doc.find("</details>").unwrap_or(doc.len())]
}

fn entry(kind: &str, path: &str, declared: &str, doc: &str, owner_is_unstable: bool) -> Entry {
    let unstable = owner_is_unstable || doc.contains(UNSTABLE);
    let mark = if unstable { "unstable" } else { "stable  " };
    let text = if declared.is_empty() { String::new() } else { format!("  {declared}") };
    Entry { line: format!("{mark} {kind} {path}{text}"), path: path.to_owned(), has_example: doc.contains(EXAMPLE) }
}

/// The item of a page, its own methods, and the traits that it implements.
fn page_entries(kind: &str, path: &str, page: &str, all: &mut Vec<Entry>) {
    let doc = first_doc(page);
    let unstable = doc.contains(UNSTABLE);
    let declared = declaration(page);
    // A trait's methods come below, one line each.
    let declared = if kind == "trait" { declared.split(" {").next().unwrap_or_default().to_owned() } else { declared };
    all.push(entry(kind, path, &declared, doc, false));
    if path == TWINS {
        return;
    }
    let at = |id: &str| page.find(&format!("id=\"{id}"));
    let end = ["synthetic-implementations", "foreign-impls", "implementors"].into_iter().filter_map(at).min();
    let page = &page[..end.unwrap_or(page.len())];
    let traits = page.find("id=\"trait-implementations\"").unwrap_or(page.len());
    // What a type derefs to has a page of its own.
    let own = page[..traits].find("id=\"deref-methods-").unwrap_or(traits);
    let calls = called(page);
    for (id, code, doc) in sections(&page[..own]) {
        let member = ["method.", "tymethod.", "associatedtype.", "associatedconstant."];
        if let Some(name) = member.iter().find_map(|kind| id.strip_prefix(kind)) {
            let mut member = entry("fn", &format!("{path}::{name}"), &code, doc, unstable);
            // An example of the type, or of a neighbour, may call it.
            member.has_example |= calls.contains(name);
            all.push(member);
        }
    }
    for (_, code, _) in sections(&page[traits..]).filter(|(id, ..)| id.starts_with("impl-")) {
        all.push(entry("impl", path, &code, "", unstable));
    }
}

/// Every word of the examples of a page.
fn called(page: &str) -> BTreeSet<String> {
    let examples = page.split(EXAMPLE).skip(1).filter_map(|rest| rest.split_once('>')?.1.split("</code>").next());
    let text: String = examples.map(plain).collect::<Vec<_>>().join(" ");
    text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
}

/// The item's declaration, in one line.
fn declaration(page: &str) -> String {
    let Some(from) = page.find("item-decl\">") else { return String::new() };
    let rest = &page[from + "item-decl\">".len()..];
    let mut code = rest[..rest.find("</pre>").unwrap_or(rest.len())].to_owned();
    // `Show 12 fields`, a button.
    while let Some(start) = code.find("<summary") {
        let Some(length) = code[start..].find("</summary>") else { break };
        code.replace_range(start..start + length + "</summary>".len(), "");
    }
    plain(&code)
}

/// Sections with an id: the id, the code in its head, and what follows up to the next one.
fn sections(page: &str) -> impl Iterator<Item = (&str, String, &str)> {
    page.split("<section id=\"").skip(1).filter_map(|section| {
        let id = section.split('"').next()?;
        let code = section.split_once("code-header\">")?.1;
        let end = code.find("</h4>").into_iter().chain(code.find("</h3>")).min()?;
        Some((id, plain(&code[..end]), &code[end..]))
    })
}

/// HTML without tags and entities, white space made one blank.
fn plain(html: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for c in html.chars() {
        match c {
            '<' => inside = true,
            '>' if inside => inside = false,
            _ if inside => {}
            c => text.push(c),
        }
    }
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ];
    let text = entities.iter().fold(text, |text, (entity, c)| text.replace(entity, c));
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(", )", ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<pre class=\"rust item-decl\"><code>pub struct <a>P</a>&lt;T&gt; {\n    pub w: T,\n}</code></pre>\
        <details class=\"toggle top-doc\" open><div class=\"docblock\"><p>A thing.</p></div></details>\
        <section id=\"method.new\" class=\"method\"><h4 class=\"code-header\">pub fn new(\n    x: T,\n) -&gt; P</h4></section>\
        <div class=\"docblock\">Unstable: may go.</div>\
        <h2 id=\"trait-implementations\"><section id=\"impl-Layer-for-P\" class=\"impl\"><h3 class=\"code-header\">impl Layer for P</h3></section>\
        <section id=\"method.forward\" class=\"method\"><h4 class=\"code-header\">fn forward()</h4></section>\
        <h2 id=\"synthetic-implementations\"><section id=\"impl-Send-for-P\" class=\"impl\"><h3 class=\"code-header\">impl Send for P</h3></section>";

    #[test]
    fn a_page_becomes_lines() {
        let mut all = Vec::new();
        page_entries("struct", "rustytorch::P", PAGE, &mut all);
        let lines: Vec<&str> = all.iter().map(|e| e.line.as_str()).collect();
        assert_eq!(
            lines,
            [
                "stable   struct rustytorch::P  pub struct P<T> { pub w: T, }",
                "unstable fn rustytorch::P::new  pub fn new(x: T) -> P",
                "stable   impl rustytorch::P  impl Layer for P",
            ]
        );
    }

    #[test]
    fn what_an_example_calls_is_shown() {
        let page = "<pre class=\"rust rust-example-rendered\"><code><span>let</span> p = P::new(<span>1</span>);</code></pre> more";
        let calls = called(page);
        assert!(calls.contains("new") && !calls.contains("more"), "{calls:?}");
    }

    #[test]
    fn the_list_of_bare_items_shrinks() {
        let now = BTreeSet::from(["a".to_owned()]);
        assert!(compare_bare("a\n", &now).is_ok());
        assert!(compare_bare("", &now).unwrap_err().contains("\n  a: write an example"));
        assert!(compare_bare("a\nb\n", &now).unwrap_err().contains("\n  b: run"));
    }

    #[test]
    fn a_change_is_named() {
        let now = BTreeSet::from(["stable   fn b".to_owned()]);
        assert!(compare("# head\nstable   fn b\n", &now).is_ok());
        let message = compare("stable   fn a\n", &now).unwrap_err();
        assert!(message.contains("\n  - stable   fn a\n  + stable   fn b\n"), "{message}");
        assert!(message.contains("1 of the lines that are gone were stable"), "{message}");
    }
}
