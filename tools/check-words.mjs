// Words and sentences of names, texts for users, guides, comments and commit subjects; the lists are in tools/words.mjs.
import { spawnSync } from 'node:child_process';
import { DIALECT, FORMER_NAMES, HONEST_NAMES, HONEST_TEXTS, MOST_WORDS, VAGUE_START } from './words.mjs';

/** Comments that may start with What, Whether, How, Of, Where or Who. Lower it as they are reworded; never raise it. */
export const MOST_VAGUE_COMMENTS = 40;

/** Vague comments fewer than the maximum at which the maximum must be lowered. */
const SLACK = 30;

/** Subjects of commits behind this one are checked. */
export const BASE_COMMIT = '5814f4000f4fd9da91fa5c91ca7f13c8db55cbf4';

/** The lists and their tests. */
const EXEMPT = /^(?:tools\/words\.mjs|test\/tools\/check-words\.test\.ts)$/;

const MOST_SUBJECT_CHARACTERS = 72;

const FORMER = Object.entries(FORMER_NAMES).map(
  ([words, today]) => /** @type {const} */ ([new RegExp(` (?:${words}) `), today]),
);

const ANY_FORMER = new RegExp(` (?:${Object.keys(FORMER_NAMES).join('|')}) `);

/** Comments, strings, templates with one level of templates inside, regular expressions, and identifiers. */
const TOKEN =
  /\/\/.*|\/\*[\s\S]*?\*\/|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\[\s\S]|\$\{(?:[^{}`]|\{[^{}]*\}|`(?:\\.|[^`\\])*`)*\}|\$(?!\{)|[^`\\$])*`|(?<=[(,=:[!&|?{};>\n] *)\/(?![*/ ])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*|[A-Za-z_$][\w$]*/g;

/** Verbs that end like other forms of verbs. */
const IMPERATIVE =
  /^(?:need|feed|seed|embed|shed|speed|bring|string|ping|focus|process|pass|bypass|address|alias|bias|express|compress|access|discuss|suppress|guess|miss)$/;

/**
 * @typedef {object} Words complaints about the words of a tree, a sentence each, and what was counted
 * @property {string[]} complaints
 * @property {string} counts
 */

/**
 * All checks of words but that of commit subjects.
 *
 * @param {ReadonlyMap<string, string>} sources sources by path from the repository's root
 * @param {ReadonlyMap<string, string>} guides Markdown by path
 * @param {number} mostVague comments that may start vaguely
 * @returns {Words}
 */
export function wordComplaints(sources, guides, mostVague = MOST_VAGUE_COMMENTS) {
  const names = [...sources].flatMap(([file, source]) => (EXEMPT.test(file) ? [] : nameComplaints(file, source)));
  const texts = [...sources].filter(([file]) => file.startsWith('src/')).flatMap((entry) => sourceTexts(...entry));
  texts.push(...[...guides].flatMap((entry) => guideTexts(...entry)));
  const phrases = texts.flatMap(phraseComplaints);
  const long = texts.flatMap(lengthComplaints);
  const vague = [...sources].reduce((sum, [, source]) => sum + vagueComments(source).length, 0);
  return {
    complaints: [...names, ...phrases, ...long, ...vagueComplaints(vague, mostVague)],
    counts:
      `words: ${names.length} former names, ${phrases.length} former phrases and ${long.length} long sentences ` +
      `in ${texts.length} texts, ${vague} of at most ${mostVague} vague comments`,
  };
}

/**
 * Former names of a source, and exceptions that it no longer needs.
 *
 * @param {string} file
 * @param {string} source
 * @returns {string[]}
 */
export function nameComplaints(file, source, honest = HONEST_NAMES[file] ?? {}) {
  const found = new Map();
  for (const { 0: name, index } of source.matchAll(TOKEN)) {
    if (/^[A-Za-z_$]/.test(name) && !found.has(name) && ANY_FORMER.test(wordsOf(name))) found.set(name, index);
  }
  const complaints = [];
  for (const [name, index] of found) {
    if (Object.hasOwn(honest, name)) continue;
    const words = wordsOf(name);
    const [, today] = FORMER.find(([former]) => former.test(words)) ?? ['', ''];
    complaints.push(
      `${file}:${lineAt(source, index)} has the former name ${name}; say ${today}, or give a reason in tools/words.mjs`,
    );
  }
  for (const name of Object.keys(honest)) {
    if (!found.has(name)) complaints.push(`${file} has no ${name}; remove it from tools/words.mjs`);
  }
  return complaints;
}

/**
 * The words of an identifier in lower case, between blanks: `isPutAway` is ` is put away `.
 *
 * @param {string} name
 */
function wordsOf(name) {
  return ` ${(name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g) ?? []).join(' ').toLowerCase()} `;
}

/**
 * @param {string} source
 * @param {number} index
 */
function lineAt(source, index) {
  return source.slice(0, index).split('\n').length;
}

/** @typedef {readonly [place: string, text: string]} Text */

/**
 * Strings of several words in a source; those that `+` joins are one.
 *
 * @param {string} file
 * @param {string} source
 * @returns {Text[]}
 */
export function sourceTexts(file, source) {
  /** @type {{ start: number, end: number, text: string }[]} */
  const strings = [];
  for (const { 0: token, index } of source.matchAll(TOKEN)) {
    if (!/^['"`]/.test(token)) continue;
    const text = token
      .slice(1, -1)
      .replaceAll(/\$\{(?:[^{}]|\{[^{}]*\})*\}/g, '0')
      .replaceAll('\\n', '\n');
    const last = strings.at(-1);
    if (last !== undefined && /^\s*\+\s*$/.test(source.slice(last.end, index))) {
      last.text += text;
      last.end = index + token.length;
    } else {
      strings.push({ start: index, end: index + token.length, text });
    }
  }
  return strings
    .filter(({ text }) => /[a-z]\S* \S*[a-z]/.test(text))
    .map(({ start, text }) => /** @type {Text} */ ([`${file}:${lineAt(source, start)}`, text]));
}

/**
 * Paragraphs and items of a page. Fenced code, tables, headings and what is in backticks are left out.
 *
 * @param {string} file
 * @param {string} page
 * @returns {Text[]}
 */
export function guideTexts(file, page) {
  /** @type {[string, string][]} */
  const texts = [];
  let isFenced = false;
  let isOpen = false;
  for (const [index, line] of page.split('\n').entries()) {
    if (/^\s*(?:```|~~~)/.test(line)) isFenced = !isFenced;
    const isProse = !isFenced && !/^\s*(?:$|```|~~~|\||#|<)/.test(line);
    const prose = line.replaceAll(/`[^`]*`/g, '`x`');
    const last = texts.at(-1);
    if (isProse && isOpen && last !== undefined && !/^\s*(?:[-*]|\d+\.) /.test(line)) last[1] += ` ${prose}`;
    else if (isProse) texts.push([`${file}:${index + 1}`, prose]);
    isOpen = isProse;
  }
  return texts;
}

/**
 * @param {Text} text
 * @returns {string[]}
 */
export function phraseComplaints([place, text]) {
  const phrase = DIALECT.exec(text)?.[0];
  if (phrase === undefined || Object.hasOwn(HONEST_TEXTS, text)) return [];
  return [`${place} says “${phrase}”, which tools/words.mjs lists: ${text.slice(0, 100)}`];
}

/**
 * @param {Text} text
 * @returns {string[]}
 */
export function lengthComplaints([place, text]) {
  return text
    .split(/(?<=[.:;?!])\s+|\n\s*\n/)
    .map((sentence) => sentence.split(/\s+/).filter((word) => /\w/.test(word)))
    .filter((words) => words.length > MOST_WORDS)
    .map(
      (words) =>
        `${place} has a sentence of ${words.length} words, more than ${MOST_WORDS}: ${words.slice(0, 8).join(' ')} …`,
    );
}

/**
 * Comments of a source that start with What, Whether, How, Of, Where or Who; lines of `//` that follow each other are one
 * comment.
 *
 * @param {string} source
 * @returns {string[]}
 */
export function vagueComments(source) {
  /** @type {string[]} */
  const found = [];
  let end = -1;
  for (const { 0: token, index } of source.matchAll(TOKEN)) {
    if (!/^\/[/*]/.test(token)) continue;
    const isNext = token.startsWith('//') && end >= 0 && /^\n[ \t]*$/.test(source.slice(end, index));
    end = token.startsWith('//') ? index + token.length : -1;
    const text = token.replace(/^\/[/*]+[\s*]*/, '');
    if (!isNext && VAGUE_START.test(text)) found.push(text);
  }
  return found;
}

/**
 * @param {number} count
 * @param {number} most
 */
function vagueComplaints(count, most) {
  const start = 'comments start with What, Whether, How, Of, Where or Who';
  if (count > most) return [`${count} ${start}, more than ${most}: start them with the noun that they describe`];
  if (count < most - SLACK)
    return [`${count} ${start}; lower MOST_VAGUE_COMMENTS of tools/check-words.mjs from ${most}`];
  return [];
}

/**
 * Subjects that are too long or not `scope: imperative sentence`.
 *
 * @param {readonly string[]} subjects
 * @returns {string[]}
 */
export function subjectComplaints(subjects) {
  return subjects.flatMap((subject) => {
    const [, verb] = /^[A-Za-z][\w./-]*(?:, [\w./-]+)*: ([a-z]+)\b/.exec(subject) ?? [];
    if (verb === undefined) return [`commit “${subject}”: write scope: imperative sentence`];
    if (subject.length > MOST_SUBJECT_CHARACTERS) {
      return [`commit “${subject}”: ${subject.length} characters are more than ${MOST_SUBJECT_CHARACTERS}`];
    }
    if (/(?:ed|ing|[^s]s)$/.test(verb) && !IMPERATIVE.test(verb))
      return [`commit “${subject}”: “${verb}” is not imperative`];
    return [];
  });
}

/**
 * Subjects of the commits behind a base, merges left out; undefined without such a history.
 *
 * @param {string} root
 * @returns {string[] | undefined}
 */
export function subjectsSince(root, base = BASE_COMMIT) {
  const { status, stdout } = spawnSync('git', ['log', '--no-merges', '--format=%s', `${base}..HEAD`], {
    cwd: root,
    encoding: 'utf8',
  });
  return status === 0 ? stdout.split('\n').filter((subject) => subject !== '') : undefined;
}
