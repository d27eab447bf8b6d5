# Numbers as the tables of our scripts have them. Used with: jq -L lab 'include "numbers"; …'

# Three digits.
def digits: if . >= 100 then round elif . >= 10 then (. * 10 | round) / 10 else (. * 100 | round) / 100 end;

# A ratio: two decimals, also where they are zeros.
def ratio: (. * 100 | round | tostring) | ("00" + .)[-([length, 3] | max):] | .[:-2] + "." + .[-2:];

# A share as a difference: 0.031 is +3.1 %.
def percent: . * 100 | (. * 10 | round) / 10 | if . > 0 then "+\(.)" else "\(.)" end + " %";
