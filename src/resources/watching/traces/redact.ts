/**
 * Removes secrets from everything that a trace stores, before it is stored. Three things are removed: texts that look
 * like credentials, the values of the workspace's secrets, and what the patterns of the deployment match.
 * NOT covered: a secret that the text splits, encodes or spells in another way.
 * The thread that serves does this, so patterns that need much work get little: what they have not read is removed.
 */
import { REDACTION } from "../../quality/patterns/parse.ts";
import { Patterns } from "../../quality/patterns/patterns.ts";

const REPLACEMENT = "[redacted]";
export const MAX_PATTERNS = 20;
/** A shorter value would remove ordinary words. */
const SHORTEST_SECRET = 6;
const MAX_DEPTH = 64;
const MOST_WORK = 2_000_000; // for all texts of a trace: about 30 ms

/** Credentials by their known forms. */
const BUILT_IN = [
  "vk_[0-9A-Za-z]{30,}",
  "whsec_[0-9A-Za-z+/=]{16,}",
  "sk-[0-9A-Za-z_-]{20,}",
  "hf_[0-9A-Za-z]{20,}",
  "gh[opsur]_[0-9A-Za-z]{30,}",
  "github_pat_[0-9A-Za-z_]{20,}",
  "glpat-[0-9A-Za-z_-]{20,}",
  "xox[abeoprs]-[0-9A-Za-z-]{10,}",
  "A[KS]IA[0-9A-Z]{16}",
  "AIza[0-9A-Za-z_-]{30,}",
  "eyJ[0-9A-Za-z_-]{10,}\\.[0-9A-Za-z_-]{10,}\\.[0-9A-Za-z_-]{10,}",
  "(?i)bearer [0-9a-z._~+/=-]{16,}",
  "-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{16,}-----END [A-Z ]{0,30}PRIVATE KEY-----",
];

export class Redactor {
  readonly #patterns: Patterns;

  /** Throws PatternError. */
  constructor(patterns: readonly string[] = []) {
    this.#patterns = new Patterns([...BUILT_IN, ...patterns], REDACTION);
  }

  /** For the texts of one trace, which share its work. Gives a copy of any JSON value with every text cleaned. */
  cleaner(secrets: readonly string[] = []): <T>(value: T) => T {
    const most = this.#patterns.work + MOST_WORK;
    const cleanText = (text: string): string => {
      let cleaned = text;
      for (const secret of secrets) if (cleaned.includes(secret)) cleaned = cleaned.replaceAll(secret, REPLACEMENT);
      return this.#patterns.replace(cleaned, REPLACEMENT, Math.max(0, most - this.#patterns.work)) ?? REPLACEMENT;
    };
    const clean = (value: unknown, depth: number): unknown => {
      if (typeof value === "string") return cleanText(value);
      if (typeof value !== "object" || value === null) return value;
      if (depth > MAX_DEPTH) return REPLACEMENT;
      if (Array.isArray(value)) return value.map((each) => clean(each, depth + 1));
      return Object.fromEntries(
        Object.entries(value).map(([name, each]) => [cleanText(name), clean(each, depth + 1)]), // names of fields too
      );
    };
    return <T>(value: T) => clean(value, 0) as T;
  }
}

/**
 * The forms in which a secret may occur in a text: as it is, and inside a JSON text such as the arguments of a call. The
 * longest is first: a secret may begin with another one, and its end must not remain.
 */
export const secretForms = (values: readonly string[]): string[] => [
  ...new Set(
    values
      .filter((value) => value.length >= SHORTEST_SECRET)
      .flatMap((value) => [value, JSON.stringify(value).slice(1, -1)])
      .sort((a, b) => b.length - a.length),
  ),
];
