/** A line that is not a row. `line` counts from 1, as in an editor; blank lines count too. */
export class RowError extends Error {
  constructor(
    readonly line: number,
    readonly why: string,
    readonly field: string | null = null,
  ) {
    super(`Line ${line}: ${why}`);
    this.name = "RowError";
  }
}
