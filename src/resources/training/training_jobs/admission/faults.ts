/** Collects what is wrong with a request for a job. Creation reports the first error, a validation all of them. */
import { AppError } from "../../../../lib/errors.ts";
import type { Warning } from "../table.ts";

export type Errors = readonly [AppError, ...AppError[]];
export type Result<T> = { ok: T } | { errors: Errors };

/** Param in the error of another resource → param in this request. */
type Renames = Readonly<Record<string, string>>;

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

  /** Collects an error that the caller can fix. Other errors are thrown. */
  attempt<T>(work: () => T, renames?: Renames): T | undefined {
    try {
      return work();
    } catch (error) {
      return this.#collect(error, renames);
    }
  }

  async attemptLater<T>(work: () => Promise<T>, renames?: Renames): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      return this.#collect(error, renames);
    }
  }

  #collect(error: unknown, renames?: Renames): undefined {
    if (!(error instanceof AppError) || error.status >= 500) throw error;
    this.errors.push(renamed(error, renames));
  }

  /** A missing value without an error is a bug. */
  result<T>(value: T | undefined): Result<T> {
    const [first, ...rest] = this.errors;
    if (first) return { errors: [first, ...rest] };
    if (value === undefined) throw new Error("Nothing is wrong with the request, but its check has no result");
    return { ok: value };
  }
}

function renamed(error: AppError, renames: Renames = {}): AppError {
  const param = renames[error.param ?? ""];
  return param === undefined ? error : new AppError(error.code, error.message, { param, cause: error });
}

/** Throws the caller's error with the param of this request. */
export async function renaming<T>(renames: Renames, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof AppError ? renamed(error, renames) : error;
  }
}
