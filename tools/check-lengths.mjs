// Long files are split, or say why not.

/** A file over this many lines needs a reason. */
const MOST_LINES = 350;
/** How the reason begins, in the file's first comment. */
const REASON = 'One file because';

/** Files that were longer before this check and have neither been split nor given a reason. The list only gets shorter. */
const KNOWN_LONG = ['native/device_object.cc', 'src/executor/layers/forward-pass.ts'];

/**
 * What is wrong with the lengths of files, a sentence each.
 *
 * @param {ReadonlyMap<string, string>} sources contents by path from the repository's root
 * @param {readonly string[]} knownLong files that are allowed to be long, and must be
 * @returns {string[]}
 */
export function lengthComplaints(sources, knownLong = KNOWN_LONG) {
  const isLong = (file) => {
    const source = sources.get(file) ?? '';
    return source.split('\n').length - 1 > MOST_LINES && !firstComment(file, source).includes(REASON);
  };
  return [
    ...[...sources.keys()]
      .filter((file) => isLong(file) && !knownLong.includes(file))
      .map(
        (file) =>
          `${file} has more than ${MOST_LINES} lines: split it, or begin its first comment's reason "${REASON}"`,
      ),
    ...knownLong
      .filter((file) => !isLong(file))
      .map((file) => `${file} needs no leave to be long any more: take it off the list in tools/check-lengths.mjs`),
  ];
}

/** Lines of comment count as one comment while nothing stands between them. */
function firstComment(file, source) {
  const comment = file.endsWith('.py') ? /"""[\s\S]*?"""|(?:^ *#.*\n?)+/m : /\/\*[\s\S]*?\*\/|(?:^ *\/\/.*\n?)+/m;
  return comment.exec(source)?.[0] ?? '';
}
