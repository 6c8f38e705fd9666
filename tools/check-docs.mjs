// Checks of the documentation: links and anchors that lead nowhere, paths of this tree that do not exist, code fences that are
// not closed, rows that do not fit their table, and dates or commits outside of docs/evidence.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** A path of this tree in backticks, without arguments. */
const TREE_PATH = /`((?:src|test|tools|kernels|native|bench|deploy|proto|examples|models)\/[\w./*{},-]+)`/g;
const DATE =
  /\b20\d\d-\d\d-\d\d\b|\b\d{1,2} (?:January|February|March|April|May|June|July|August|September|October|November|December) 20\d\d\b/;
const COMMIT = /`(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,12}`/;

/**
 * The anchors of a page's headings, as GitHub makes them.
 *
 * @param {string} text
 * @returns {Set<string>}
 */
function anchorsOf(text) {
  const headings = withoutFences(text).matchAll(/^#{1,6} (.+)$/gm);
  return new Set([...headings].map(([, title]) => anchorOf(title ?? '')));
}

/** @param {string} title */
const anchorOf = (title) =>
  title
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

/** @param {string} text */
const withoutFences = (text) => text.replace(/^```[\s\S]*?^```$/gm, '');

/**
 * @param {string} root
 * @param {string} file from the root
 * @param {string} text
 * @returns {string[]}
 */
function linkComplaints(root, file, text) {
  return [...withoutFences(text).matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link = '']) => {
    if (/^[a-z]+:/.test(link)) return [];
    const [target = '', anchor] = link.split('#');
    const at = target === '' ? file : path.join(path.dirname(file), target);
    if (!existsSync(path.join(root, at))) return [`${file}: the link ${link} leads to no file`];
    if (anchor === undefined || !at.endsWith('.md')) return [];
    const page = at === file ? text : readFileSync(path.join(root, at), 'utf8');
    return anchorsOf(page).has(anchor) ? [] : [`${file}: ${at} has no heading for the link ${link}`];
  });
}

/**
 * @param {string} root
 * @param {string} file
 * @param {string} text
 * @returns {string[]}
 */
function pathComplaints(root, file, text) {
  const named = [...text.matchAll(TREE_PATH)].map(([, name = '']) => name);
  // The folder of a pattern counts.
  const fixed = (/** @type {string} */ name) => name.replace(/[^/]*[*{].*$/, '');
  return [...new Set(named)]
    .filter((name) => !existsSync(path.join(root, fixed(name))))
    .map((name) => `${file}: there is no ${name}`);
}

/**
 * Dates and commits belong to results, which are in docs/evidence.
 *
 * @param {string} file
 * @param {string} text
 * @returns {string[]}
 */
function dateComplaints(file, text) {
  const lines = withoutFences(text).split('\n');
  return lines.flatMap((line) => {
    const [found] = DATE.exec(line) ?? COMMIT.exec(line) ?? [];
    return found === undefined ? [] : [`${file}: ${found} belongs in docs/evidence, not in a guide`];
  });
}

/**
 * Rows with another number of cells than the head of their table: GitHub splits cells at `|` in code, too.
 *
 * @param {string} file
 * @param {string} text
 * @returns {string[]}
 */
function tableComplaints(file, text) {
  const cells = (/** @type {string} */ row) => row.replaceAll('\\|', '').split('|').length;
  let width = 0;
  return withoutFences(text)
    .split('\n')
    .flatMap((line) => {
      const isRow = line.startsWith('|');
      if (isRow && width === 0) width = cells(line);
      else if (!isRow) width = 0;
      return isRow && cells(line) !== width
        ? [`${file}: a row has other columns than its table: ${line.slice(0, 60)}`]
        : [];
    });
}

/**
 * @param {string} root
 * @returns {string[]} a sentence for each fault
 */
export function docsComplaints(root) {
  const pages = readdirSync(path.join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => path.join('docs', name));
  return [...pages, 'README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'examples/README.md'].flatMap(
    (file) => {
      const text = readFileSync(path.join(root, file), 'utf8');
      const isEvidence = file.startsWith(path.join('docs', 'evidence'));
      const fences = (text.match(/^```/gm) ?? []).length;
      return [
        ...(fences % 2 === 0 ? [] : [`${file}: a code fence is not closed`]),
        ...tableComplaints(file, text),
        ...linkComplaints(root, file, text),
        // Evidence names files as they were called then.
        ...(isEvidence ? [] : pathComplaints(root, file, text)),
        ...(isEvidence ? [] : dateComplaints(file, text)),
      ];
    },
  );
}
