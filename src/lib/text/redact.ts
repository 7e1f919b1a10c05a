/**
 * Nothing secret leaves through a log, an error text or a stderr tail. Two nets: the name of a field, and the look of
 * a string. Each pattern hides behind a plain substring check, so that an ordinary line costs no regular expression.
 * NOT covered: a secret without a telling name or shape, and one that was encoded or cut into pieces before.
 */
export const REDACTED = "[redacted]";

const NAMES = [
  ..."authorization cookie cookies password passwords passwd passphrase secret secrets credential credentials".split(
    " ",
  ),
  ..."apikey privatekey accesskey accesskeyid secretkey masterkey signingkey encryptionkey datakey signature".split(
    " ",
  ),
  ..."token tokens session_token bearer jwt".split(" "),
].map((name) => name.replaceAll("_", ""));

/** `x-api-key`, `apiKey`, `webhook_secret`, `key`: yes. `key_id`, `max_tokens: 5`, `primary_key`: no. */
export function isSecretName(name: string): boolean {
  const plain = name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
  return plain === "key" || NAMES.some((each) => plain.endsWith(each));
}

/** Field names are few and come again on every line; a caller's own keys must not fill memory. */
const fieldNames = new Map<string, { secret: boolean; shown: string }>();
function fieldName(name: string) {
  let field = fieldNames.get(name);
  if (field === undefined) {
    const shown = redactText(name);
    field = { secret: isSecretName(name), shown: shown === "__proto__" ? "[__proto__]" : shown };
    if (fieldNames.size < 1000) fieldNames.set(name, field);
  }
  return field;
}

const QUERY =
  "(?:x-amz-|x-goog-)?(?:signature|credential|security-token)|sig|hmac|token|access_token|refresh_token|id_token|" +
  "api[-_]?key|key|secret|client_secret|password|passwd|pwd|auth|authorization|awsaccesskeyid";

const SHORTEST = 5; // `sig=x`

/** Any of the substrings must be present before the pattern is tried. */
const PATTERNS: readonly (readonly [needles: readonly string[], pattern: RegExp, replacement: string])[] = [
  [["vk_"], /vk_[A-Za-z0-9]{9,}/g, `vk_${REDACTED}`], // up to eight characters are the public prefix of a key
  [["whsec_"], /whsec_[A-Za-z0-9+/=_-]{5,}/g, `whsec_${REDACTED}`],
  [["earer", "EARER"], /\b(bearer)(\s+|%20)[^\s"',;]{6,}/gi, `$1 ${REDACTED}`],
  [["asic ", "ASIC "], /\b([Bb]asic|BASIC)\s+(?![A-Za-z]?[a-z]+\b)[A-Za-z0-9+/=_-]{6,}/g, `$1 ${REDACTED}`],
  [
    ["PRIVATE KEY"],
    /-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)/g,
    REDACTED,
  ],
  [["hf_"], /hf_[A-Za-z0-9]{16,}/g, `hf_${REDACTED}`],
  [["sk-"], /\bsk-[A-Za-z0-9_-]{16,}/g, `sk-${REDACTED}`],
  [["AKIA", "ASIA"], /\bA(?:KI|SI)A[A-Z0-9]{16}/g, REDACTED],
  [["eyJ"], /\beyJ[\w-]{8,1000}\.[\w-]{8,}(?:\.[\w-]*)*/g, REDACTED], // JSON web token
  [["://"], /(\w:\/\/)[^\s/?#"'<>]+@/g, `$1${REDACTED}@`],
  [["="], new RegExp(`(^|[?&;\\s"'])(${QUERY})=[^&\\s"'#;]+`, "gi"), `$1$2=${REDACTED}`],
  [['":', '\\":'], /(\\?")([\w.-]+)(\\?"\s*:\s*\\?")((?:[^"\\]|\\[^"])*)/g, ""], // JSON inside a string: see below
  [["ey:", "ie:", "ion:", "ecret:", "oken:", "word:"], /^([ \t]*)([\w-]+)(:[ \t]*)(\S.*)$/gm, ""], // header lines
];

export function redactText(text: string): string {
  if (text.length < SHORTEST) return text;
  let out = text;
  for (const [needles, pattern, replacement] of PATTERNS) {
    if (!needles.some((needle) => out.includes(needle))) continue;
    out =
      replacement === ""
        ? out.replace(pattern, (all: string, before: string, name: string, between: string) =>
            isSecretName(name) ? `${before}${name}${between}${REDACTED}` : all,
          )
        : out.replace(pattern, replacement);
  }
  return out;
}

const MAX_DEPTH = 8;
const MAX_ITEMS = 100;
const MAX_TEXT = 16_384;

/** A copy that JSON.stringify can print: secrets hidden, cycles and monsters cut, no getter's exception let through. */
export function redactValue(value: unknown): unknown {
  return clean(value, []);
}

function clean(value: unknown, above: readonly object[]): unknown {
  switch (typeof value) {
    case "string":
      return shorten(redactText(value.length > 4 * MAX_TEXT ? value.slice(0, 4 * MAX_TEXT) : value));
    case "bigint":
      return value.toString();
    case "symbol":
    case "function":
      return `[${typeof value}]`;
    case "object":
      if (value === null) return null;
      if (above.includes(value)) return "[circular]";
      if (above.length >= MAX_DEPTH) return "[deep]";
      try {
        return cleanObject(value, [...above, value]);
      } catch {
        return "[unreadable]";
      }
    default:
      return value;
  }
}

function cleanObject(value: object, above: readonly object[]): unknown {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "[invalid date]" : value.toISOString();
  if (value instanceof URL) return redactText(value.href);
  if (value instanceof RegExp) return redactText(String(value));
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value)) return cleanList(value, above);
  if (value instanceof Set) return cleanList([...value], above);
  if (value instanceof Map || value instanceof Headers || value instanceof URLSearchParams)
    return cleanEntries([...value.entries()], above);

  const entries: [string, unknown][] = [];
  if (value instanceof Error)
    for (const key of ["name", "message", "stack", "cause", "errors"]) {
      const part = read(value, key);
      if (part !== undefined) entries.push([key, part]);
    }
  const pair = read(value, "name") ?? read(value, "key"); // {name: "authorization", value: "…"}
  const hideValue = typeof pair === "string" && isSecretName(pair);
  for (const key of Object.keys(value)) entries.push([key, hideValue && key === "value" ? REDACTED : read(value, key)]);
  return cleanEntries(entries, above);
}

function cleanList(list: unknown[], above: readonly object[]): unknown[] {
  const [name] = list;
  if (list.length === 2 && typeof name === "string" && isSecretName(name)) return [name, REDACTED];
  const kept = list.slice(0, MAX_ITEMS).map((item) => clean(item, above));
  return list.length > MAX_ITEMS ? [...kept, `[${list.length - MAX_ITEMS} more]`] : kept;
}

function cleanEntries(entries: [unknown, unknown][], above: readonly object[]): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [key, value] of entries.slice(0, MAX_ITEMS)) {
    const name = typeof key === "string" ? key : String(clean(key, above));
    const { secret, shown } = fieldName(name);
    const counted = secret && typeof value === "number" && /(tokens?|key)$/i.test(name); // tokens are also what models count
    const hidden = secret && !counted && typeof value !== "boolean" && value !== null && value !== undefined;
    out[shown] = hidden ? REDACTED : clean(value, above);
  }
  if (entries.length > MAX_ITEMS) out["…"] = `[${entries.length - MAX_ITEMS} more]`;
  return out;
}

function read(from: object, key: string): unknown {
  try {
    return (from as Record<string, unknown>)[key];
  } catch {
    return "[unreadable]";
  }
}

const shorten = (text: string) =>
  text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}… [${text.length} characters]` : text;
