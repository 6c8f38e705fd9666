// Long files are split, or say why not.

/** A file over this many lines needs a reason. */
const MOST_LINES = 350;
/** Beginning of the reason, in the file's first comment. */
const REASON = 'One file because';

/**
 * Complaints about the lengths of files, a sentence each.
 *
 * @param {ReadonlyMap<string, string>} sources contents by path from the repository's root
 * @returns {string[]}
 */
export function lengthComplaints(sources) {
  return [...sources.keys()]
    .filter((file) => {
      const source = sources.get(file) ?? '';
      return source.split('\n').length - 1 > MOST_LINES && !firstComment(file, source).includes(REASON);
    })
    .map(
      (file) => `${file} has more than ${MOST_LINES} lines: split it, or begin its first comment's reason "${REASON}"`,
    );
}

/** Lines of comment count as one comment while nothing stands between them. */
function firstComment(file, source) {
  const comment = file.endsWith('.py') ? /"""[\s\S]*?"""|(?:^ *#.*\n?)+/m : /\/\*[\s\S]*?\*\/|(?:^ *\/\/.*\n?)+/m;
  return comment.exec(source)?.[0] ?? '';
}
