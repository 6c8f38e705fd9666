const MOST_CHARACTERS = 64;

/** A text from outside, cut to so many characters. */
export function cut(text: string, most = MOST_CHARACTERS): string {
  return text.length <= most ? text : `${text.slice(0, most)}…`;
}

/** A text from outside as messages quote it: as JSON, because it may hold terminal control characters; where it is cut, with how long it is. */
export function quoted(text: string, most = MOST_CHARACTERS): string {
  const told = JSON.stringify(cut(text, most));
  return text.length <= most ? told : `${told} (${text.length} characters)`;
}
