// Package ledger writes down where the time of a request went: how much each
// step was given, how much it used, and how much of that was waiting. It is
// read after the fact, when somebody asks why nothing was left at the end.
//
// Nothing is exported yet.
package ledger
