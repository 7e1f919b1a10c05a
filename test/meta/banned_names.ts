/**
 * House words and the known words that replace them. CONTRIBUTING.md shows the same lists; a test compares the two.
 * `name` is matched as a whole identifier or word, never inside a longer one.
 */
export type BannedName = { readonly name: string; readonly use: string };

/** Names of types, interfaces and classes. A type is a noun for what it holds. */
export const BANNED_TYPES: readonly BannedName[] = [
  { name: "Place", use: "Permits, Paths, Hardware, Location" },
  { name: "Places", use: "Permits, Paths, Semaphore" },
  { name: "Placed", use: "Location, Provisioned" },
  { name: "Door", use: "Listener, Interface, Endpoint" },
  { name: "Ask", use: "Request, Query, Options" },
  { name: "Asked", use: "Request, Query, Options" },
  { name: "Asker", use: "Caller, Requester" },
  { name: "Given", use: "Input, Options, Fields" },
  { name: "Told", use: "Message, Report, Update" },
  { name: "Seen", use: "State, Observation, Progress" },
  { name: "Known", use: "Entry, Cache, Registered" },
  { name: "Found", use: "Match, Result" },
  { name: "Kept", use: "Stored, Entry, Record" },
  { name: "Held", use: "Lease, Reservation, Waiting" },
  { name: "Wanted", use: "Requirement, Target" },
  { name: "Wish", use: "Request, Preference" },
  { name: "Wishes", use: "Requests, Preferences" },
  { name: "Who", use: "Caller, Owner, Holder" },
  { name: "What", use: "the noun that it holds" },
];

/** Names of functions, constants and modules. A function is a plain verb for what it does. */
export const BANNED_FUNCTIONS: readonly BannedName[] = [
  { name: "places", use: "permits, paths, hardware" },
  { name: "placesOf", use: "permitsOf, pathsOf" },
  { name: "placed", use: "formatLocation, provision" },
  { name: "isPromise", use: "needsFlush" },
  { name: "promisesNothing", use: "skipFlush" },
  { name: "patience", use: "connection, timeouts" },
  { name: "hear", use: "handleMessage" },
  { name: "bury", use: "handleExit" },
  { name: "feed", use: "resume, write, send" },
  { name: "starve", use: "pauseForCredit" },
  { name: "fly", use: "attempt, send" },
  { name: "land", use: "record, store" },
  { name: "tell", use: "send, report, notify" },
  { name: "look", use: "read, check, inspect" },
  { name: "gone", use: "abortCause, replicaLost" },
  { name: "leaving", use: "callerSignal" },
  { name: "asked", use: "requested, resendPatch" },
  { name: "UNTOLD", use: "UNREPORTED_END" },
  { name: "LOST", use: "UNREPORTED_END, or the noun of the message" },
];

/** Words of comments, messages and documents. */
export const BANNED_WORDS: readonly BannedName[] = [
  { name: "whoever", use: "the caller, the user, the operator" },
  { name: "nobody", use: "no caller, no user, no key" },
  { name: "somebody", use: "a user, another caller" },
  { name: "anybody", use: "any caller, any user" },
  { name: "everybody", use: "everyone, all users" },
  { name: "mend", use: "fix" },
  { name: "mends", use: "fixes" },
  { name: "last words", use: "last error output, last message" },
  { name: "dialled", use: "connected to" },
  { name: "looking on", use: "monitoring" },
  { name: "looked at", use: "checked, read, scanned" },
  { name: "is told", use: "is reported, receives, gets" },
  { name: "was told", use: "was reported, received, got" },
];
