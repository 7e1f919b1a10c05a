/** What is wrong with a request for a job: creation answers with the first of it, a validation shows all. */
import { AppError } from "../../../lib/errors.ts";

export type Warning = { message: string; param: string | null };

export class Faults {
  readonly errors: AppError[] = [];
  readonly warnings: Warning[] = [];

  refuse(param: string, message: string) {
    const field = param.slice(1).replaceAll("/", ".");
    this.errors.push(new AppError("schema", `${field}: ${message}`, { param }));
  }

  warn(param: string | null, message: string) {
    this.warnings.push({ param, message });
  }

  /** What the caller can mend is kept; anything else is thrown on. `rename`: pointers that are called otherwise here. */
  keep(error: unknown, rename: Readonly<Record<string, string>> = {}): undefined {
    if (!(error instanceof AppError) || error.status >= 500) throw error;
    const param = rename[error.param ?? ""];
    if (param === undefined) return void this.errors.push(error);
    const message = error.message.replace(/^\w+: /, `${param.slice(1)}: `);
    this.errors.push(new AppError(error.code, message, { param, cause: error }));
  }

  attempt<T>(work: () => T, rename?: Readonly<Record<string, string>>): T | undefined {
    try {
      return work();
    } catch (error) {
      return this.keep(error, rename);
    }
  }

  async attemptLater<T>(work: () => Promise<T>, rename?: Readonly<Record<string, string>>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      return this.keep(error, rename);
    }
  }

  throwFirst() {
    const [first] = this.errors;
    if (first) throw first;
  }
}
