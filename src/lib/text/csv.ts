/** Cells of CSV, for programs and for spreadsheets. */

const doubled = (text: string) => text.replaceAll('"', '""');

/** The exact text, for programs. */
export const csvCell = (text: string): string => (/[",\r\n]/.test(text) ? `"${doubled(text)}"` : text);

/** A spreadsheet takes a cell that begins so for a formula, also with the wide forms of these characters. */
const FORMULA = /^[\s\0]*[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n]/;
const NUMBER = /^[+-]?\d{1,300}(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?$/;

/** A spreadsheet shows this cell as text: an apostrophe stands before what it would run. Numbers stay numbers. */
export function spreadsheetCell(text: string): string {
  const isRun = FORMULA.test(text) && !NUMBER.test(text);
  return `"${isRun ? "'" : ""}${doubled(text)}"`;
}
