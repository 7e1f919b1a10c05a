-- People at an OpenID Connect provider: who has this subject there is this person here.
CREATE TABLE person_identities (
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  person_id TEXT NOT NULL REFERENCES people (id),
  created_at INTEGER NOT NULL,
  PRIMARY KEY (issuer, subject)
);
CREATE INDEX person_identities_person ON person_identities (person_id);
