/** A text of somebody else as a terminal may show it: nothing in it is a command. Line ends stay. */
export function printable(text: string): string {
  return text.replace(/[^\P{C}\n]/gu, '\u{fffd}');
}
