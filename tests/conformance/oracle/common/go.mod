// The part of the oracle that is the same for every Trainer line. It names no requirements on
// purpose: each line's own go.mod decides with which versions these files are compiled.
module stationmaster/oracle/common

go 1.24.0
