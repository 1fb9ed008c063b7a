# line 01 of a file that is longer than it may be
# line 02 of a file that is longer than it may be
# line 03 of a file that is longer than it may be
# line 04 of a file that is longer than it may be
# line 05 of a file that is longer than it may be
# line 06 of a file that is longer than it may be
# line 07 of a file that is longer than it may be
# line 08 of a file that is longer than it may be
# line 09 of a file that is longer than it may be
# line 10 of a file that is longer than it may be
# line 11 of a file that is longer than it may be
# line 12 of a file that is longer than it may be
# line 13 of a file that is longer than it may be
# line 14 of a file that is longer than it may be
# line 15 of a file that is longer than it may be
# line 16 of a file that is longer than it may be
# line 17 of a file that is longer than it may be
# line 18 of a file that is longer than it may be
# line 19 of a file that is longer than it may be
# line 20 of a file that is longer than it may be
# line 21 of a file that is longer than it may be
# line 22 of a file that is longer than it may be
# line 23 of a file that is longer than it may be
# line 24 of a file that is longer than it may be
nginx:
  pkg.installed: []
